//! One row of the table: what it assumes, what it expects, and how it is run.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use super::{Property, Redlock, Rules};

/// No row takes this long, on any machine that runs the tests.
const LIMIT: Duration = Duration::from_secs(600);

/// What a row says about its properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They hold in every state.
    Holds,
    /// Each of them is broken in some state, and that state is found.
    Breaks,
}

/// How many nodes there are and how many attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Three nodes, two attempts.
    N3T2,
    /// Three nodes, three attempts.
    N3T3,
    /// Four nodes, two attempts.
    N4T2,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its short name.
    pub name: &'static str,
    /// What it is about, for people.
    pub says: &'static str,
    /// What is expected.
    pub verdict: Verdict,
    /// Of these properties.
    pub properties: &'static [Property],
    /// How much of a world there is.
    pub size: Size,
    /// Whether it takes minutes, and is run only when asked for.
    pub is_long: bool,
    /// What is assumed.
    pub rules: Rules,
}

/// What came of a row.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// States that differ.
    pub states: usize,
    /// How long it took.
    pub took: Duration,
    /// Whether every state was looked at.
    pub is_exhausted: bool,
    /// Whether something happened at all.
    pub is_reached: bool,
    /// The properties that were broken, with the steps that did it.
    pub broken: Vec<(&'static str, Vec<String>)>,
}

impl Row {
    /// Looks at every state, or until what must break is broken.
    pub fn run(&self) -> Outcome {
        match self.size {
            Size::N3T2 => self.explore::<3, 2>(),
            Size::N3T3 => self.explore::<3, 3>(),
            Size::N4T2 => self.explore::<4, 2>(),
        }
    }

    /// Whether the outcome is the expected one.
    ///
    /// # Errors
    /// With what is not, in a sentence.
    pub fn judge(&self, outcome: &Outcome) -> Result<(), String> {
        match self.verdict {
            Verdict::Breaks => {
                let found =
                    |it: &&Property| outcome.broken.iter().any(|(name, _)| *name == it.name());
                match self.properties.iter().find(|it| !found(it)) {
                    Some(property) => Err(format!("{property} must break and was not seen to")),
                    None => Ok(()),
                }
            }
            Verdict::Holds => match outcome.broken.first() {
                Some((name, steps)) => Err(format!("{name} breaks:\n  {}", steps.join("\n  "))),
                None if !outcome.is_exhausted => Err("not every state was looked at".to_owned()),
                None if !outcome.is_reached => Err("nothing ever happened".to_owned()),
                None => Ok(()),
            },
        }
    }

    fn explore<const N: usize, const T: usize>(&self) -> Outcome {
        let model = Redlock::<N, T> {
            rules: self.rules,
            properties: self.properties,
            must_be_reached: self.verdict == Verdict::Holds,
        };
        match self.verdict {
            Verdict::Holds => exhaust(model),
            Verdict::Breaks => {
                let alone = self.properties.iter().map(|property| Redlock {
                    properties: std::slice::from_ref(property),
                    ..model.clone()
                });
                let mut outcomes = alone.map(shortest_way);
                let first = outcomes.next().expect("a row has a property");
                outcomes.fold(first, Outcome::and)
            }
        }
    }
}

impl Outcome {
    fn and(mut self, other: Self) -> Self {
        self.states += other.states;
        self.took += other.took;
        self.broken.extend(other.broken);
        self
    }
}

/// Looks at every state, on every core.
fn exhaust<const N: usize, const T: usize>(model: Redlock<N, T>) -> Outcome {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let checker = model.checker().timeout(LIMIT).threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    outcome(&checker.spawn_dfs().join(), started)
}

/// Looks for one broken property on one thread, breadth first: the shortest way
/// there, always the same.
fn shortest_way<const N: usize, const T: usize>(model: Redlock<N, T>) -> Outcome {
    let started = Instant::now();
    let checker = model.checker().timeout(LIMIT);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    outcome(&checker.spawn_bfs().join(), started)
}

fn outcome<const N: usize, const T: usize>(
    checker: &impl Checker<Redlock<N, T>>,
    started: Instant,
) -> Outcome {
    let took = started.elapsed();
    let mut broken = Vec::new();
    let mut is_reached = false;
    for (name, path) in checker.discoveries() {
        if name == Property::reached_name() {
            is_reached = true;
        } else {
            let steps = path.into_actions().into_iter();
            broken.push((name, steps.map(|action| action.to_string()).collect()));
        }
    }
    broken.sort_unstable();
    Outcome {
        states: checker.unique_state_count(),
        took,
        is_exhausted: checker.is_done() && took < LIMIT,
        is_reached,
        broken,
    }
}
