//! Never more holders of a semaphore than it has permits.

use super::{Violation, clock};
use crate::history::History;
use crate::hold::{Hold, holds};

/// Moments with more than so many holders of one lock, one permit each.
#[must_use]
pub fn capacity(history: &History, permits: usize) -> Vec<Violation> {
    let mut violations = Vec::new();
    let holds = holds(history);
    let mut open: Vec<&Hold> = Vec::new();
    for hold in &holds {
        open.retain(|it| it.to > hold.from);
        let with: Vec<_> = open.iter().filter(|it| it.name == hold.name).collect();
        let is_full = with.len() >= permits;
        let earliest = with.iter().min_by_key(|it| it.from).filter(|_| is_full);
        violations.extend(earliest.map(|earlier| Violation {
            invariant: "capacity",
            text: format!(
                "{} holders of {} with {permits} permits at {}",
                with.len() + 1,
                hold.name,
                clock(history, hold.from)
            ),
            lines: [earlier.granted_line, hold.granted_line],
            span: (hold.from, hold.to.min(earlier.to)),
        }));
        open.push(hold);
    }
    violations
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
        assert_eq!(found[0].lines, [0, 3]);
    }
}
