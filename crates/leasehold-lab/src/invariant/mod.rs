//! What must be true of a run, one idea per file. Each looks at the history
//! alone and gives the two lines that prove a violation.

mod belief;
mod capacity;
mod crowd;
mod ends;
mod exclusion;
mod left;
mod linear;
#[cfg(test)]
mod mutants;
mod order;
mod progress;
mod stale;
mod tokens;
mod told;

use std::collections::BTreeMap;

use crate::history::{Event, History, Moment};

pub use belief::belief;
pub use capacity::capacity;
pub use ends::ends_well;
pub use exclusion::{exclusion, overtaken};
pub use left::nothing_left;
pub use linear::linearizable;
pub use order::order_of_service;
pub use progress::progress;
pub use stale::{lost_updates, stale_writes};
pub use tokens::token_order;
pub use told::told_in_time;

/// Something that must not happen, and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant.
    pub invariant: &'static str,
    /// In one sentence.
    pub text: String,
    /// The lines of the history that prove it.
    pub lines: [usize; 2],
    /// From when to when, for the picture.
    pub span: (Moment, Moment),
}

/// When each worker stood still.
fn pauses(history: &History) -> BTreeMap<String, Vec<(Moment, Moment)>> {
    let mut pauses: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for line in &history.lines {
        match &line.event {
            Event::Fault { kind, on } if kind == "pause" => {
                let pauses = pauses.entry(on.clone()).or_default();
                pauses.push((line.at, Moment::MAX));
            }
            Event::Healed { kind, on } if kind == "pause" => {
                let last = pauses.get_mut(on).and_then(|pauses| pauses.last_mut());
                let last = last.filter(|(_, to)| *to == Moment::MAX);
                last.into_iter().for_each(|(_, to)| *to = line.at);
            }
            _ => {}
        }
    }
    pauses
}

/// A moment for people: seconds since the beginning of the run.
pub(crate) fn clock(history: &History, at: Moment) -> String {
    let since = at.saturating_sub(history.span().0);
    format!(
        "{}.{:03} s",
        since / 1_000_000_000,
        since / 1_000_000 % 1_000
    )
}
