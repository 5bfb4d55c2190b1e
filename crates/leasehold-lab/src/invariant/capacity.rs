//! Never more holders of a semaphore than it has permits.

use super::crowd::{Crowd, crowds};
use super::{Violation, clock};
use crate::history::History;
use crate::hold::{Hold, holds};

/// Moments with more than so many holders of one lock, one permit each.
#[must_use]
pub fn capacity(history: &History, permits: usize) -> Vec<Violation> {
    let holds = holds(history);
    let violation = |crowd: Crowd<'_, Hold>| Violation {
        invariant: "capacity",
        text: format!(
            "{} holders of {} with {permits} permits at {}",
            crowd.count,
            crowd.later.name,
            clock(history, crowd.later.from)
        ),
        lines: crowd.lines(),
        span: crowd.span(),
    };
    crowds(&holds, permits).into_iter().map(violation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Event;
    use crate::history::tests::{granted, line};

    #[test]
    fn one_more_than_there_are_permits_is_found() {
        let history = History::new(vec![
            line(1, "a", granted(1, 50)),
            line(2, "b", granted(2, 10)),
            line(20, "c", granted(3, 50)),
            line(30, "d", granted(4, 50)),
            line(40, "a", Event::Releases),
        ]);
        assert_eq!(capacity(&history, 3), []);
        let found = capacity(&history, 2);
        assert_eq!(found.len(), 1, "{found:?}");
        // Of the two that were there the third one stays longer.
        assert_eq!(found[0].lines, [2, 3]);
    }
}
