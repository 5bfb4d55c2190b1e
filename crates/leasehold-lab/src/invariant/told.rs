//! A holder that loses its lock is told before another has it, and when its time
//! is over in any case.

use std::collections::BTreeMap;

use super::{Violation, clock, pauses};
use crate::history::{History, Moment};
use crate::hold::{End, Hold, holds};

/// How late a worker may tell of what it knew in time: it writes the line after it
/// was told, when it has a processor.
const SLACK: Moment = 1_000_000_000;

/// Losses that were told after others had been granted all there is (with one
/// permit that is the next holder), or later than the holder's time was over. A
/// worker that stands still is told as soon as it goes on; that it stood still
/// explains nothing else.
#[must_use]
pub fn told_in_time(history: &History, permits: usize) -> Vec<Violation> {
    let pauses = pauses(history);
    let holds = holds(history);
    let mut by_name: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in &holds {
        by_name.entry(&hold.name).or_default().push(hold);
    }
    let mut violations = Vec::new();
    for hold in &holds {
        let told = history.lines[hold.end_line].at;
        let still = pauses.get(&hold.by).map_or(&[][..], Vec::as_slice);
        let all = &by_name[&*hold.name];
        if let Some(next) = given_away(hold, all, permits) {
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
        } else if hold.end == End::Over && awake(hold.to, told, still) > SLACK {
            violations.push(Violation {
                invariant: "loss told in time",
                text: format!(
                    "the time of {} was over at {}, and it was told at {}",
                    hold.by,
                    clock(history, hold.to),
                    clock(history, told)
                ),
                lines: [hold.granted_line, hold.end_line],
                span: (hold.to, told),
            });
        }
    }
    violations
}

/// Who was granted what this one lost, while it still believed to hold.
fn given_away<'a>(hold: &Hold, all: &[&'a Hold], permits: usize) -> Option<&'a Hold> {
    if hold.end != End::Lost && hold.end != End::Over {
        return None;
    }
    let begin = all.partition_point(|it| it.from <= hold.from);
    let later = all[begin..]
        .iter()
        .take_while(|next| next.from < hold.to)
        .filter(|next| next.by != hold.by);
    // Its place was given away when others had all permits.
    let holders_at = |at: Moment| {
        let end = all.partition_point(|it| it.from <= at);
        let others = all[..end].iter().filter(|it| it.by != hold.by);
        others.filter(|it| at < it.to).count()
    };
    let mut later = later.copied();
    later.find(|next| permits == 1 || holders_at(next.from) >= permits)
}

/// How much of this time a worker did not stand still.
fn awake(from: Moment, to: Moment, pauses: &[(Moment, Moment)]) -> Moment {
    let still = pauses
        .iter()
        .map(|&(begin, end)| end.min(to).saturating_sub(begin.max(from)));
    to.saturating_sub(from).saturating_sub(still.sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{granted, line};
    use crate::history::{Event, Line};

    fn lost(why: &str) -> Event {
        Event::Lost { why: why.into() }
    }

    /// A worker stands still from one millisecond to another.
    fn pause(on: &str, from: u64, to: u64) -> [Line; 2] {
        let (kind, on) = ("pause".to_owned(), on.to_owned());
        let (again, too) = (kind.clone(), on.clone());
        [
            line(from, "lab", Event::Fault { kind, on }),
            line(
                to,
                "lab",
                Event::Healed {
                    kind: again,
                    on: too,
                },
            ),
        ]
    }

    #[test]
    fn a_loss_that_is_told_after_another_was_granted_is_found_also_if_the_worker_stood_still() {
        let mut lines = vec![
            line(1, "a", granted(1, 90)),
            line(20, "b", granted(2, 90)),
            line(30, "a", lost("gone")),
        ];
        let found = told_in_time(&History::new(lines.clone()), 1);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].lines, [1, 2]);
        // Its time was not over: the store had no right to grant it.
        lines.extend(pause("a", 2, 29));
        assert_eq!(told_in_time(&History::new(lines), 1).len(), 1);
    }

    /// A time that is over at 90 ms, told then, with a pause.
    fn told_at(told: u64, still: (u64, u64)) -> usize {
        let mut lines = vec![
            line(1, "a", granted(1, 90)),
            line(95, "b", granted(2, 200)),
            line(96, "b", Event::Releases),
            line(told, "a", lost("deadline")),
        ];
        lines.extend(pause("a", still.0, still.1));
        told_in_time(&History::new(lines), 1).len()
    }

    #[test]
    fn a_pause_excuses_what_is_told_late_for_as_long_as_it_lasted() {
        assert_eq!(told_at(900, (1, 2)), 0, "within the slack");
        assert_eq!(
            told_at(4_000, (1, 2)),
            1,
            "a pause that was over long before"
        );
        assert_eq!(told_at(4_000, (50, 3_900)), 0, "told as soon as it goes on");
        assert_eq!(told_at(6_000, (50, 3_900)), 1, "told late after it went on");
        assert_eq!(told_at(6_000, (2_000, 3_900)), 1, "it had time before it");
    }

    #[test]
    fn with_permits_it_is_too_late_when_others_have_all_of_them() {
        let lines = |releases| {
            let mut lines = vec![
                line(1, "a", granted(1, 90)),
                line(2, "b", granted(2, 90)),
                line(20, "c", granted(3, 90)),
                line(30, "a", lost("gone")),
                line(40, "b", Event::Releases),
                line(41, "c", Event::Releases),
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
            line(21, "b", Event::Releases),
            line(3_000, "a", Event::Killed),
        ]);
        assert_eq!(told_in_time(&history, 1), []);
    }
}
