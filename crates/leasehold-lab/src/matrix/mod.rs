//! Every store under every fault, cell by cell, and what came of it.

mod index;
mod table;

use std::path::Path;
use std::time::Duration;

use crate::fault::{Answer, FAILOVER, FAULTS, Fault, PAUSE_AT_WRITE, RESTART_ALL_EMPTY, SWITCH};
use crate::ground::Kind;
use crate::recorder::Recorder;
use crate::story::Error;
use crate::torture::{Plan, Verdict, history_file, torture};

pub use index::index;
pub use table::{BEGIN, END, put_between_marks, table};

/// The ttl of the workers' sessions, in milliseconds.
const TTL: u64 = 1_500;
/// The same where a server takes over from another: with less every belief is
/// over before the other leads.
const LONG_TTL: u64 = 8_000;
/// Faults under which two may hold at once, here or there.
const LET_TWO_IN: [&str; 5] = [
    PAUSE_AT_WRITE,
    "restart-empty",
    RESTART_ALL_EMPTY,
    "clock",
    FAILOVER,
];
/// How many may hold at once in the row with a semaphore.
const PERMITS: u32 = 2;

/// One store under one fault.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The store.
    pub store: &'static str,
    /// What happens: the head of the row.
    pub row: Row,
    /// What chose the moments.
    pub seed: u64,
    /// What came of it.
    pub came: Came,
    /// Whether it was run, so that there is a page of it.
    pub has_page: bool,
    /// Where a picture of it is, seen from the table, if it is kept.
    pub picture: Option<String>,
}

/// What happens in a row of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// This, again and again, and the resource checks fences.
    Fenced(&'static str),
    /// The same where the resource checks nothing.
    Unfenced(&'static str),
    /// Several faults in turn, on a semaphore with two permits.
    Permits,
}

/// What came of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// Nothing that must not be, and nothing that the theory allows either.
    Held,
    /// Tokens or waiters did not keep their order so many times, as the theory
    /// says, and nobody held with another.
    OutOfOrder(usize),
    /// Two believed to hold so many times, as the theory says, and nothing stale
    /// was written.
    TwoBelieved(usize),
    /// So many updates were lost, as the theory says where nothing checks.
    Lost(usize),
    /// What must never be, in sentences.
    Broken(Vec<String>),
    /// It could not be tried.
    Skipped(String),
    /// It could not be begun, although it should have been.
    Failed(String),
}

impl Row {
    /// All rows.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut rows = Vec::new();
        for fault in FAULTS {
            rows.push(Self::Fenced(fault.name));
            if LET_TWO_IN.contains(&fault.name) {
                rows.push(Self::Unfenced(fault.name));
            }
        }
        rows.push(Self::Permits);
        rows
    }

    /// The name of its fault, or of what is done otherwise.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Fenced(fault) => fault.to_owned(),
            Self::Unfenced(fault) => format!("{fault}, no fence"),
            Self::Permits => "several, two permits".to_owned(),
        }
    }

    /// What runs a cell of it again: the arguments of the lab.
    #[must_use]
    pub fn again(self, store: &str, seed: &str, length: Duration) -> String {
        let permits = |faults: Vec<Fault>| {
            let names: Vec<_> = faults.iter().map(|fault| fault.name).collect();
            format!("{} --permits {PERMITS}", names.join(","))
        };
        let mut faults = match self {
            Self::Fenced(fault) => fault.to_owned(),
            Self::Unfenced(fault) => format!("{fault} --unfenced"),
            Self::Permits => permits(everyday()),
        };
        if self.has_long_ttl() {
            faults += &format!(" --ttl {LONG_TTL} --long-work {}", 2 * TTL);
        }
        let length = in_words(length);
        format!("torture --store {store} --seed {seed} --for {length} --faults {faults}")
    }

    pub(super) fn has_long_ttl(self) -> bool {
        matches!(self, Self::Fenced(FAILOVER) | Self::Unfenced(FAILOVER))
    }

    /// A run of it.
    #[must_use]
    pub fn plan(self, kind: &'static Kind, seed: u64, length: Duration) -> Plan {
        let named = |name| Fault::find(name).copied().into_iter().collect();
        let (faults, permits, fenced) = match self {
            Self::Fenced(fault) => (named(fault), 1, true),
            Self::Unfenced(fault) => (named(fault), 1, false),
            Self::Permits => (everyday(), PERMITS, true),
        };
        let ttl_millis = match self.has_long_ttl() {
            true => LONG_TTL,
            false => TTL,
        };
        Plan {
            kind,
            faults,
            seed,
            length,
            workers: 4,
            ttl_millis,
            work_millis: 15,
            // Without renewals it could not be.
            long_work_millis: Some(2 * TTL),
            permits,
            fenced,
            sabotage: None,
        }
    }
}

/// A length of time as the command line takes it.
fn in_words(length: Duration) -> String {
    match length.subsec_millis() {
        0 => format!("{}s", length.as_secs()),
        _ => format!("{}ms", length.as_millis()),
    }
}

/// Faults that need no servers of another kind, and after which every store has
/// what it had.
fn everyday() -> Vec<Fault> {
    let names = ["kill", "pause", "cut", "one-way", "lost-replies", "restart"];
    let faults = names.iter().filter_map(|name| Fault::find(name).copied());
    faults.collect()
}

impl Cell {
    /// The name of its files.
    #[must_use]
    pub fn file_name(store: &str, row: Row, seed: u64) -> String {
        let name = row.name().replace([',', ' '], "-").replace("--", "-");
        format!("matrix-{store}-{name}-{seed}")
    }

    /// Whether it shows more than that all is well.
    #[must_use]
    pub fn is_telling(&self) -> bool {
        let came = &self.came;
        matches!(
            came,
            Came::OutOfOrder(_) | Came::TwoBelieved(_) | Came::Lost(_)
        )
    }

    /// Runs a cell, and gives its run too, if there was one. The history goes
    /// into this folder while it runs, and the page at its end.
    ///
    /// # Errors
    /// If there is no room for its files.
    pub fn run(
        kind: &'static Kind,
        row: Row,
        seed: u64,
        length: Duration,
        out: &Path,
    ) -> Result<(Self, Option<Verdict>), Error> {
        let cell = |came| Self {
            store: kind.name,
            row,
            seed,
            came,
            has_page: false,
            picture: None,
        };
        if let Some(what) = (kind.lacks)() {
            let why = format!("{what} is missing on this machine");
            return Ok((cell(Came::Skipped(why)), None));
        }
        if row == Row::Permits && kind.name == "redlock" {
            return Ok((cell(Came::Skipped("it has no semaphores".into())), None));
        }
        let plan = row.plan(kind, seed, length);
        let folder = tempfile::tempdir()?;
        let name = Self::file_name(kind.name, row, seed);
        std::fs::create_dir_all(out)?;
        let recorder = Recorder::streaming(&history_file(out, &name))?;
        Ok(match torture(&plan, folder.path(), &recorder, &|_| {}) {
            Ok(verdict) => {
                verdict.write(&plan, &name, out)?;
                let cell = Self {
                    has_page: true,
                    ..cell(Came::of(&verdict))
                };
                (cell, Some(verdict))
            }
            // The other cells are worth having all the same.
            Err(error) => (cell(Came::Failed(error.to_string())), None),
        })
    }
}

impl Came {
    /// What a run says.
    #[must_use]
    pub fn of(verdict: &Verdict) -> Self {
        if !verdict.broken.is_empty() {
            let texts = verdict.broken.iter();
            return Self::Broken(texts.map(|it| it.text.clone()).collect());
        }
        let mut skipped = None;
        let mut happened = false;
        // A switch that nobody meant is not the fault of this cell.
        for fault in verdict.faults.iter().filter(|it| it.fault != SWITCH) {
            match &fault.answer {
                Answer::Installed => happened = true,
                Answer::Skipped(why) | Answer::Doubtful(why) => skipped = Some(why.clone()),
            }
        }
        if let (false, Some(why)) = (happened, skipped) {
            return Self::Skipped(why);
        }
        let count = |names: &[&str]| {
            let allowed = verdict.allowed.iter();
            allowed.filter(|it| names.contains(&it.invariant)).count()
        };
        match (
            count(&["no lost update"]),
            count(&["exclusion", "belief", "capacity", "loss told in time"]),
            verdict.allowed.len(),
        ) {
            (0, 0, 0) => Self::Held,
            (0, 0, all) => Self::OutOfOrder(all),
            (0, two, _) => Self::TwoBelieved(two),
            (lost, _, _) => Self::Lost(lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::invariant::Violation;
    use crate::torture::Happened;

    /// What comes of a run in which these were allowed.
    fn came(allowed: &[&'static str]) -> Came {
        let violation = |&invariant: &&'static str| Violation {
            invariant,
            text: String::new(),
            lines: [0, 0],
            span: (0, 0),
        };
        Came::of(&Verdict {
            history: History::default(),
            broken: Vec::new(),
            allowed: allowed.iter().map(violation).collect(),
            faults: vec![Happened {
                fault: "restart-empty",
                answer: Answer::Installed,
                span: (0, 0),
            }],
            grants: 9,
        })
    }

    #[test]
    fn a_cell_held_only_if_nothing_was_excused() {
        assert_eq!(came(&[]), Came::Held);
        assert_eq!(came(&["token order"]), Came::OutOfOrder(1));
        assert_eq!(came(&["order of service"]), Came::OutOfOrder(1));
        let two = ["token order", "belief", "loss told in time"];
        assert_eq!(came(&two), Came::TwoBelieved(2));
        assert_eq!(came(&["no lost update", "exclusion"]), Came::Lost(1));
    }
}
