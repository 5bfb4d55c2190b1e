//! A fenced resource takes no write of a holder after one of a newer holder, and
//! nobody's update is lost in it.

use std::collections::BTreeMap;

use super::{Violation, clock};
use crate::history::{Access, Event, History, Line, Moment};

/// A write that a resource accepted.
struct Write<'a> {
    line: usize,
    at: Moment,
    of: &'a str,
    token: Option<u64>,
    value: u64,
    /// The number of the write whose value it goes on from; none if it goes on
    /// from the beginning.
    after: Option<usize>,
}

/// Writes that a resource accepted after it had seen a greater token.
#[must_use]
pub fn stale_writes(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    // By resource: the greatest token so far, and the line that brought it.
    let mut newest: BTreeMap<&str, (u64, usize, Moment)> = BTreeMap::new();
    for (number, line) in history.lines.iter().enumerate() {
        let Event::Decides {
            of,
            access,
            token: Some(token),
            accepted: true,
            ..
        } = &line.event
        else {
            continue;
        };
        match newest.get(line.by.as_str()) {
            Some((newer, seen, at)) if token < newer => {
                if matches!(access, Access::Write(_)) {
                    violations.push(Violation {
                        invariant: "no stale write",
                        text: format!(
                            "{} accepted a write of {of} with token {token} after {newer} at {}",
                            line.by,
                            clock(history, line.at)
                        ),
                        lines: [*seen, number],
                        span: (*at, line.at),
                    });
                }
            }
            _ => {
                newest.insert(&line.by, (*token, number, line.at));
            }
        }
    }
    violations
}

/// Writes that the last value does not go back to: others wrote over them what
/// they made of an earlier value. There are as many of them as writes were
/// accepted that the value does not count.
#[must_use]
pub fn lost_updates(history: &History, resource: &str) -> Vec<Violation> {
    let writes = writes(history, resource);
    let mut is_kept = vec![false; writes.len()];
    let mut next = writes.len().checked_sub(1);
    while let Some(number) = next {
        is_kept[number] = true;
        next = writes[number].after;
    }
    let lost = writes
        .iter()
        .enumerate()
        .filter(|(number, _)| !is_kept[*number]);
    lost.filter_map(|(number, lost)| {
        // The last write is always kept.
        let over = (number + 1..writes.len()).find(|&later| is_kept[later])?;
        Some(violation(history, lost, &writes[over]))
    })
    .collect()
}

fn violation(history: &History, lost: &Write<'_>, over: &Write<'_>) -> Violation {
    let [a, b] = [lost, over].map(|write| match write.token {
        Some(token) => format!("{} (token {token})", write.of),
        None => write.of.to_owned(),
    });
    Violation {
        invariant: "no lost update",
        text: format!(
            "{a} wrote {} at {}, and it is lost: {b} had read before, and wrote {} at {}",
            lost.value,
            clock(history, lost.at),
            over.value,
            clock(history, over.at)
        ),
        lines: [lost.line, over.line],
        span: (lost.at, over.at),
    }
}

/// All writes that this resource accepted, in the order in which it did.
fn writes<'a>(history: &'a History, resource: &str) -> Vec<Write<'a>> {
    let mut reads: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    let mut writes: Vec<Write<'_>> = Vec::new();
    for (number, line) in history.lines.iter().enumerate() {
        let Some((of, access, value, token)) = decided(line, resource) else {
            continue;
        };
        let last = writes.len().checked_sub(1);
        let Access::Write(_) = access else {
            reads.insert(of, last);
            continue;
        };
        writes.push(Write {
            line: number,
            at: line.at,
            of,
            token,
            value,
            // Who did not read wrote in one step.
            after: reads.remove(of).unwrap_or(last),
        });
    }
    writes
}

/// An access that this resource accepted: whose, what, the value after it.
fn decided<'a>(line: &'a Line, resource: &str) -> Option<(&'a str, Access, u64, Option<u64>)> {
    match &line.event {
        Event::Decides {
            of,
            access,
            accepted: true,
            value,
            token,
        } if line.by == resource => Some((of, *access, *value, *token)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::line;

    fn decides(of: &str, access: Access, token: u64, accepted: bool, value: u64) -> Event {
        Event::Decides {
            of: of.into(),
            access,
            token: Some(token),
            accepted,
            value,
        }
    }

    #[test]
    fn a_write_with_an_older_token_is_found_unless_it_was_refused() {
        let with = |accepted| {
            History::new(vec![
                line(1, "r", decides("a", Access::Claim, 1, true, 0)),
                line(2, "r", decides("b", Access::Claim, 2, true, 0)),
                line(3, "r", decides("b", Access::Write(1), 2, true, 1)),
                line(4, "r", decides("a", Access::Write(1), 1, accepted, 1)),
            ])
        };
        assert_eq!(stale_writes(&with(false)), []);
        let found = stale_writes(&with(true));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].lines, [2, 3]);
        assert_eq!(lost_updates(&with(true), "r").len(), 1);
        assert_eq!(lost_updates(&with(true), "other"), []);
        assert_eq!(lost_updates(&with(false), "r"), []);
    }

    fn writes(values: &[(&str, Access, u64)]) -> History {
        let lines = values.iter().enumerate();
        let lines = lines.map(|(number, &(of, access, value))| {
            line(number as u64, "r", decides(of, access, 1, true, value))
        });
        History::new(lines.collect())
    }

    #[test]
    fn a_stale_write_between_anothers_read_and_write_is_one_lost_update() {
        let history = writes(&[
            ("a", Access::Read, 0),
            ("b", Access::Read, 0),
            ("b", Access::Write(1), 1),
            ("b", Access::Read, 1),
            // It comes late, and who holds rightly writes over it.
            ("a", Access::Write(1), 1),
            ("b", Access::Write(2), 2),
        ]);
        let found = lost_updates(&history, "r");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].lines, [4, 5]);
        assert!(
            found[0].text.starts_with("a (token 1) wrote 1"),
            "{found:?}"
        );
    }

    #[test]
    fn a_stale_write_at_the_end_loses_all_that_were_written_since_its_read() {
        let history = writes(&[
            ("a", Access::Read, 0),
            ("b", Access::Read, 0),
            ("b", Access::Write(1), 1),
            ("b", Access::Read, 1),
            ("b", Access::Write(2), 2),
            ("a", Access::Write(1), 1),
        ]);
        let found = lost_updates(&history, "r");
        assert_eq!(
            found.len(),
            2,
            "three writes, and the value is one: {found:?}"
        );
        assert!(found.iter().all(|it| it.lines[1] == 5));
    }
}
