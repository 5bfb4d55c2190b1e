//! How often something was done, was not, or nobody knows.

use crate::history::{Event, History, Moment, Outcome};

/// How often something was done, was not, or nobody knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Done.
    pub ok: usize,
    /// Not done.
    pub no: usize,
    /// One of the two.
    pub unknown: usize,
}

/// The same for each kind of request of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The lock was asked for.
    pub acquires: Count,
    /// It was given back.
    pub releases: Count,
    /// The resource was accessed under it.
    pub accesses: Count,
    /// What whoever looked at the store saw.
    pub witness: Sightings,
}

/// What whoever looked at the store saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sightings {
    /// Claims of which it is certain that they held, and from when to when.
    pub seen: usize,
    /// Nanoseconds in which nothing could be seen: what held then is unknown.
    pub blind: Moment,
}

impl Count {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::No => self.no += 1,
            Outcome::Unknown => self.unknown += 1,
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ok, {} no, {} unknown",
            self.ok, self.no, self.unknown
        )
    }
}

impl Sightings {
    fn close(&mut self, blind: &mut Option<Moment>, at: Moment) {
        self.blind += blind.take().map_or(0, |since| at.saturating_sub(since));
    }
}

impl std::fmt::Display for Sightings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = self.blind / 1_000_000;
        let (seconds, tenths) = (millis / 1_000, millis / 100 % 10);
        write!(f, "{}, blind for {seconds}.{tenths} s", self.seen)
    }
}

impl Tally {
    /// Counts what this history tells.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let mut tally = Self::default();
        let mut blind = None;
        for line in &history.lines {
            match &line.event {
                Event::Granted { .. } => tally.acquires.add(Outcome::Ok),
                Event::Refused { unknown, .. } => tally.acquires.add(match unknown {
                    true => Outcome::Unknown,
                    false => Outcome::No,
                }),
                Event::Released { outcome } => tally.releases.add(*outcome),
                Event::Answered { outcome, .. } => tally.accesses.add(*outcome),
                Event::Seen { .. } => tally.witness.seen += 1,
                Event::Blind { since, .. } => blind = blind.or(Some(*since)),
                Event::Sees => tally.witness.close(&mut blind, line.at),
                _ => {}
            }
        }
        tally.witness.close(&mut blind, history.span().1);
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{granted, line};

    #[test]
    fn what_nobody_knows_is_neither_done_nor_not() {
        let refused = |unknown| Event::Refused {
            why: "no answer".into(),
            unknown,
        };
        let answered = |outcome| Event::Answered {
            outcome,
            value: None,
        };
        let history = History::new(vec![
            line(1, "a", refused(true)),
            line(2, "a", refused(false)),
            line(3, "a", granted(1, 9)),
            line(4, "a", answered(Outcome::Ok)),
            line(5, "a", answered(Outcome::Unknown)),
            line(
                6,
                "a",
                Event::Released {
                    outcome: Outcome::Unknown,
                },
            ),
        ]);
        let tally = Tally::of(&history);
        assert_eq!(tally.witness, Sightings::default());
        assert_eq!(tally.acquires.to_string(), "1 ok, 1 no, 1 unknown");
        assert_eq!(tally.accesses.to_string(), "1 ok, 0 no, 1 unknown");
        assert_eq!(tally.releases.to_string(), "0 ok, 0 no, 1 unknown");
    }

    #[test]
    fn from_the_first_look_that_fails_to_the_next_that_does_not_nobody_knows() {
        let blind = |since: Moment| Event::Blind {
            since: since * 1_000_000,
            why: "refused".into(),
        };
        let history = History::new(vec![
            line(110, "store", blind(100)),
            line(600, "store", Event::Sees),
            line(1_000, "store", blind(900)),
            line(2_000, "a", Event::Rests),
        ]);
        let witness = Tally::of(&history).witness;
        assert_eq!(witness.to_string(), "0, blind for 1.6 s");
    }
}
