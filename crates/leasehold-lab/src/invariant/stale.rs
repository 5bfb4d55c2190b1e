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
    /// What the same worker had read before, if it had.
    read: Option<u64>,
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

/// Writes of one more than what was read, over a value that had changed since.
#[must_use]
pub fn lost_updates(history: &History, resource: &str) -> Vec<Violation> {
    let mut reads: BTreeMap<&str, u64> = BTreeMap::new();
    let mut last: Option<Write<'_>> = None;
    let mut violations = Vec::new();
    for (number, line) in history.lines.iter().enumerate() {
        let Some((of, access, value, token)) = decided(line, resource) else {
            continue;
        };
        let Access::Write(_) = access else {
            reads.insert(of, value);
            continue;
        };
        let write = Write {
            line: number,
            at: line.at,
            of,
            token,
            value,
            read: reads.remove(of),
        };
        if let (Some(last), Some(read)) = (&last, write.read)
            && read != last.value
        {
            let tokens = [last.token, write.token].map(|token| match token {
                Some(token) => format!(" (token {token})"),
                None => String::new(),
            });
            violations.push(Violation {
                invariant: "no lost update",
                text: format!(
                    "{}{} read {read} before {}{} wrote {}, and wrote {} over it at {}",
                    write.of,
                    tokens[1],
                    last.of,
                    tokens[0],
                    last.value,
                    write.value,
                    clock(history, write.at)
                ),
                lines: [last.line, write.line],
                span: (last.at, write.at),
            });
        }
        last = Some(write);
    }
    violations
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
}
