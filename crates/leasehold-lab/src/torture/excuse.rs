//! Which violations a fault explains: only one that took place, and only around
//! the time when it did.

use std::time::Duration;

use crate::fault::Answer;
use crate::history::Moment;
use crate::invariant::Violation;

/// How much later than a ttl after a fault its last effect may be seen: programs
/// are not let run at once.
const SLACK: Duration = Duration::from_secs(1);

/// A fault of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// Its name.
    pub fault: &'static str,
    /// What became of it.
    pub answer: Answer,
    /// From its beginning until all was whole again.
    pub span: (Moment, Moment),
}

/// When violations of one kind may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Excuse {
    windows: Vec<(Moment, Moment)>,
}

/// Where a violation must lie if a fault is to explain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lies {
    /// From its beginning to its end while the fault or its effect lasts.
    Within,
    /// It begins then, and may come to light later.
    Begins,
    /// The fault is somewhere between its two lines: what a store forgot stays
    /// forgotten.
    Meets,
}

impl Excuse {
    /// Those faults that explain something, each until whoever held on to what
    /// it knew before has come to the end of its ttl.
    pub(super) fn of(
        faults: &[Happened],
        ttl_millis: u64,
        explains: impl Fn(&str) -> bool,
    ) -> Self {
        let after = Duration::from_millis(ttl_millis) + SLACK;
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        let installed = faults
            .iter()
            .filter(|it| it.answer == Answer::Installed && explains(it.fault));
        let window = |it: &Happened| (it.span.0, it.span.1.saturating_add(after));
        Self {
            windows: installed.map(window).collect(),
        }
    }

    /// Whether nothing took place that explains anything.
    pub(super) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Whether it explains this violation.
    pub(super) fn explains(&self, lies: Lies, violation: &Violation) -> bool {
        let (begin, end) = violation.span;
        self.windows.iter().any(|&(from, to)| match lies {
            Lies::Within => from <= begin && end <= to,
            Lies::Begins => from <= begin && begin <= to,
            Lies::Meets => from <= end && begin <= to,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Moment = 1_000_000;

    fn violation(from: Moment, to: Moment) -> Violation {
        Violation {
            invariant: "exclusion",
            text: String::new(),
            lines: [0, 0],
            span: (from * MILLISECOND, to * MILLISECOND),
        }
    }

    fn clock(answer: Answer) -> Excuse {
        let happened = Happened {
            fault: "clock",
            answer,
            span: (5_000 * MILLISECOND, 6_000 * MILLISECOND),
        };
        Excuse::of(&[happened], 1_500, |fault| fault == "clock")
    }

    #[test]
    fn a_fault_explains_what_is_seen_until_a_ttl_after_it() {
        let excuse = clock(Answer::Installed);
        let seen = |lies, from, to| excuse.explains(lies, &violation(from, to));
        assert!(seen(Lies::Within, 5_000, 8_400));
        assert!(!seen(Lies::Within, 4_999, 5_500));
        assert!(!seen(Lies::Within, 8_000, 8_600));
        assert!(seen(Lies::Begins, 8_000, 20_000));
        assert!(!seen(Lies::Begins, 4_000, 5_500));
        assert!(seen(Lies::Meets, 1_000, 20_000));
        assert!(!seen(Lies::Meets, 1_000, 4_000));
        assert!(!seen(Lies::Meets, 8_600, 9_000));
    }

    #[test]
    fn a_fault_that_did_not_take_place_explains_nothing() {
        for answer in [Answer::Skipped("no".into()), Answer::Doubtful("no".into())] {
            assert!(!clock(answer).explains(Lies::Meets, &violation(5_100, 5_200)));
        }
    }
}
