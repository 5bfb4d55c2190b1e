//! No two workers believe at the same time that they hold a mutex, whatever the
//! store granted.

use super::crowd::{Crowd, Lasts, crowds};
use super::{Violation, clock};
use crate::history::{History, Moment};
use crate::hold::{Hold, holds};

impl Lasts for Hold {
    fn name(&self) -> &str {
        &self.name
    }

    fn span(&self) -> (Moment, Moment) {
        (self.from, self.to)
    }

    fn line(&self) -> usize {
        self.granted_line
    }
}

/// Pairs of holds of one lock that overlap.
///
/// No lock service can promise that there are none in every world; which faults
/// may bring them about on which store is for the caller to know.
#[must_use]
pub fn belief(history: &History) -> Vec<Violation> {
    let holds = holds(history);
    let two = crowds(&holds, 1).into_iter();
    let violation = |two: Crowd<'_, Hold>| Violation {
        invariant: "belief",
        text: format!(
            "{} and {} both believe to hold {} at {}",
            two.earlier.by,
            two.later.by,
            two.later.name,
            clock(history, two.later.from)
        ),
        lines: two.lines(),
        span: two.span(),
    };
    two.map(violation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Event;
    use crate::history::tests::{granted, line};

    #[test]
    fn two_who_believe_to_hold_are_found() {
        let history = History::new(vec![
            line(1, "a", granted(1, 50)),
            line(20, "b", granted(2, 50)),
            line(30, "a", Event::Releases),
        ]);
        let found = belief(&history);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].lines, [0, 1]);
        assert_eq!(found[0].span, (20_000_000, 30_000_000));
        assert!(found[0].text.contains("a and b both"), "{}", found[0].text);
    }

    #[test]
    fn a_hold_within_a_long_one_does_not_hide_the_next() {
        let history = History::new(vec![
            line(1, "a", granted(1, 90)),
            line(20, "b", granted(2, 90)),
            line(22, "b", Event::Releases),
            line(30, "c", granted(3, 90)),
            line(31, "c", Event::Releases),
        ]);
        assert_eq!(belief(&history).len(), 2);
    }

    #[test]
    fn one_after_the_other_is_fine_and_so_is_one_whose_time_was_over() {
        let history = History::new(vec![
            line(1, "a", granted(1, 50)),
            line(20, "a", Event::Releases),
            line(21, "b", granted(2, 30)),
            line(40, "c", granted(3, 90)),
            line(
                60,
                "b",
                Event::Lost {
                    why: "deadline".into(),
                },
            ),
        ]);
        assert_eq!(belief(&history), []);
    }
}
