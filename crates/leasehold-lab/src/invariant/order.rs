//! Whoever waits is served before all who asked after it was in the queue.

use std::collections::BTreeMap;

use super::{Violation, clock};
use crate::history::{Event, History, Moment};

/// Somebody who stands in the queue of a mutex.
struct Place {
    since: Moment,
    /// Who asked later and was granted earlier: its name, the line, when.
    overtaken_by: Option<(String, usize, Moment)>,
}

/// Grants of a mutex to workers that asked when another stood in the queue
/// already, before that one. Only workers that tell their place can be seen to
/// be overtaken; one that lost its place has a new one from then on.
#[must_use]
pub fn order_of_service(history: &History) -> Vec<Violation> {
    let mut asked: BTreeMap<&str, Moment> = BTreeMap::new();
    let mut places: BTreeMap<&str, Place> = BTreeMap::new();
    let mut violations = Vec::new();
    for (number, line) in history.lines.iter().enumerate() {
        let by = line.by.as_str();
        match &line.event {
            Event::Asks { .. } => {
                asked.insert(by, line.at);
                places.remove(by);
            }
            Event::Queued { waits: true } => {
                let place = Place {
                    since: line.at,
                    overtaken_by: None,
                };
                places.insert(by, place);
            }
            Event::Queued { waits: false } | Event::Refused { .. } | Event::Killed => {
                places.remove(by);
            }
            // One that stood still until its time was over was granted it before
            // whoever came after that.
            Event::Granted { until, .. } if until.is_some_and(|until| until <= line.at) => {
                places.remove(by);
            }
            Event::Granted { .. } => {
                let overtaken = places.remove(by).and_then(|place| place.overtaken_by);
                violations.extend(overtaken.map(|(other, granted, at)| Violation {
                    invariant: "order of service",
                    text: format!(
                        "{by} was in the queue when {other} asked, and {other} was served first at {}",
                        clock(history, at)
                    ),
                    lines: [granted, number],
                    span: (at, line.at),
                }));
                let begin = asked.get(by).copied().unwrap_or(line.at);
                for place in places.values_mut().filter(|place| place.since < begin) {
                    place
                        .overtaken_by
                        .get_or_insert((line.by.clone(), number, line.at));
                }
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Line;
    use crate::history::tests::{granted, line};

    fn asks() -> Event {
        Event::Asks { name: "l".into() }
    }

    fn waits() -> Event {
        Event::Queued { waits: true }
    }

    fn with(between: Option<Line>) -> Vec<Violation> {
        let mut lines = vec![
            line(1, "a", asks()),
            line(2, "a", waits()),
            line(3, "b", asks()),
            line(5, "b", granted(1, 20)),
            line(6, "b", Event::Releases),
            line(9, "a", granted(2, 30)),
        ];
        lines.extend(between);
        order_of_service(&History::new(lines))
    }

    #[test]
    fn one_who_was_overtaken_is_found_unless_it_lost_its_place() {
        let found = with(None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].lines, [3, 5]);
        assert_eq!(with(Some(line(7, "a", waits()))), []);
        let served = Event::Queued { waits: false };
        assert_eq!(with(Some(line(8, "a", served))), []);
        assert_eq!(with(Some(line(4, "a", asks()))), []);
    }

    #[test]
    fn a_grant_whose_time_was_over_when_it_was_told_proves_nothing() {
        let history = |until| {
            History::new(vec![
                line(1, "a", asks()),
                line(2, "a", waits()),
                line(3, "b", asks()),
                line(5, "b", granted(2, 20)),
                line(9, "a", granted(1, until)),
            ])
        };
        assert_eq!(order_of_service(&history(9)), []);
        assert_eq!(order_of_service(&history(10)).len(), 1);
    }

    #[test]
    fn whoever_asked_before_the_other_had_a_place_may_come_first() {
        let history = History::new(vec![
            line(1, "a", asks()),
            line(2, "b", asks()),
            line(3, "a", waits()),
            line(4, "b", granted(1, 20)),
            line(9, "a", granted(2, 30)),
        ]);
        assert_eq!(order_of_service(&history), []);
    }
}
