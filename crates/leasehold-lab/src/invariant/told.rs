//! A holder that loses its lock is told before another has it.

use super::{Violation, clock, pauses};
use crate::history::{History, Moment};
use crate::hold::{End, holds};

/// How late a worker may tell of what it knew in time: it writes the line after it
/// was told, when it has a processor.
const SLACK: Moment = 1_000_000_000;

/// Losses that were told after others had been granted all there is, of workers
/// that could have been told: they did not stand still. With one permit that is
/// the next holder.
#[must_use]
pub fn told_in_time(history: &History, permits: usize) -> Vec<Violation> {
    let holds = holds(history);
    let mut violations = Vec::new();
    for hold in holds
        .iter()
        .filter(|hold| matches!(hold.end, End::Lost | End::Over))
    {
        let told = history.lines[hold.end_line].at;
        let others = || {
            let others = holds.iter();
            others.filter(|it| it.name == hold.name && it.by != hold.by)
        };
        // Its place was given away when others had all permits.
        let holders_at = |at: Moment| others().filter(|it| it.from <= at && at < it.to).count();
        let mut later = others().filter(|next| next.from > hold.from && next.from < told);
        let Some(next) = later.find(|next| permits == 1 || holders_at(next.from) >= permits) else {
            continue;
        };
        // By its own clock its time was over before.
        let knew = hold.to <= next.from && told < next.from + SLACK;
        let stood_still = pauses(history, &hold.by)
            .iter()
            .any(|&(from, to)| from < told && to > hold.from);
        if !knew && !stood_still {
            violations.push(Violation {
                invariant: "loss told in time",
                text: format!(
                    "{} was told of its loss at {}, after {} had been granted",
                    hold.by,
                    clock(history, told),
                    next.by
                ),
                lines: [next.granted_line, hold.end_line],
                span: (next.from, told),
            });
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Event;
    use crate::history::tests::{granted, line};

    #[test]
    fn a_loss_that_is_told_too_late_is_found_unless_the_worker_stood_still() {
        let mut lines = vec![
            line(1, "a", granted(1, 90)),
            line(20, "b", granted(2, 90)),
            line(30, "a", Event::Lost { why: "gone".into() }),
        ];
        let found = told_in_time(&History::new(lines.clone()), 1);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].lines, [1, 2]);
        let (kind, on) = ("pause".to_owned(), "a".to_owned());
        lines.push(line(
            2,
            "lab",
            Event::Fault {
                kind: kind.clone(),
                on: on.clone(),
            },
        ));
        lines.push(line(29, "lab", Event::Healed { kind, on }));
        assert_eq!(told_in_time(&History::new(lines), 1), []);
    }

    #[test]
    fn with_permits_it_is_too_late_when_others_have_all_of_them() {
        let lines = |releases| {
            let mut lines = vec![
                line(1, "a", granted(1, 90)),
                line(2, "b", granted(2, 90)),
                line(20, "c", granted(3, 90)),
                line(30, "a", Event::Lost { why: "gone".into() }),
            ];
            lines.extend(releases);
            History::new(lines)
        };
        let found = told_in_time(&lines(None), 2);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].lines, [2, 3]);
        let free = lines(Some(line(10, "b", Event::Releases)));
        assert_eq!(told_in_time(&free, 2), []);
    }

    #[test]
    fn a_worker_that_died_after_its_time_had_nobody_to_tell() {
        let history = History::new(vec![
            line(1, "a", granted(1, 10)),
            line(20, "b", granted(2, 90)),
            line(30, "a", Event::Killed),
        ]);
        assert_eq!(told_in_time(&history, 1), []);
    }
}
