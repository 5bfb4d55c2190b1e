//! What the workers were answered is what one fenced register would answer, in
//! some order in which no access comes after one that was sent when it had been
//! answered already. The decisions that the resource tells are not looked at.
//!
//! The search is that of Wing and Gong, with Lowe's memory of where it has been.
//! An access without an answer may have been done at any time, or never.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Violation, clock};
use crate::history::{Access, Event, History, Moment, Outcome};

/// An access as its sender saw it.
#[derive(Debug, Clone)]
struct Sent {
    by: String,
    access: Access,
    fence: Option<Shown>,
    sent: Moment,
    /// When the answer came, and what it was.
    answer: Option<(Moment, bool, u64)>,
    line: usize,
}

/// A fence as it was shown: the token, and the holder if it is known.
type Shown = (u64, Option<u64>);

/// A register that goes by the rule of `leasehold::fence`: a claim takes the
/// mark if its token is greater or it is the mark, and all else must show the
/// mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Register {
    mark: Option<Shown>,
    value: u64,
}

/// How far a search has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Way {
    register: Register,
    /// All answered accesses before this one have been done.
    done: usize,
    /// Those after it that have been done too.
    early: BTreeSet<usize>,
    /// Those without an answer that have been done.
    unknown: BTreeSet<usize>,
}

/// One violation if no order of the accesses explains the answers: at the
/// access where the longest attempt ended.
#[must_use]
pub fn linearizable(history: &History, begin: u64) -> Vec<Violation> {
    let (answered, unknown) = accesses(history);
    let first = Way {
        register: Register {
            mark: None,
            value: begin,
        },
        done: 0,
        early: BTreeSet::new(),
        unknown: BTreeSet::new(),
    };
    let mut seen = HashSet::new();
    let mut ways = vec![first];
    let mut furthest = 0;
    while let Some(way) = ways.pop() {
        if way.done == answered.len() {
            return Vec::new();
        }
        furthest = furthest.max(way.done);
        let next = steps(&way, &answered, &unknown);
        ways.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    let stuck = &answered[furthest];
    let before = answered[..furthest].last().unwrap_or(stuck);
    let at = stuck.answer.map_or(stuck.sent, |(at, ..)| at);
    vec![Violation {
        invariant: "linearizability",
        text: format!(
            "no order of all accesses explains the answer that {} got at {}",
            stuck.by,
            clock(history, at)
        ),
        lines: [before.line, stuck.line],
        span: (stuck.sent, at),
    }]
}

/// All accesses in the order of their sending: with an answer, and without.
fn accesses(history: &History) -> (Vec<Sent>, Vec<Sent>) {
    let mut open: BTreeMap<&str, Sent> = BTreeMap::new();
    let (mut answered, mut unknown) = (Vec::new(), Vec::new());
    for (number, line) in history.lines.iter().enumerate() {
        match &line.event {
            Event::Sends {
                access,
                token,
                holder,
            } => {
                let sent = Sent {
                    by: line.by.clone(),
                    access: *access,
                    fence: token.map(|token| (token, *holder)),
                    sent: line.at,
                    answer: None,
                    line: number,
                };
                unknown.extend(open.insert(&line.by, sent));
            }
            // One whose outcome is unknown stays open, as one of a dead worker.
            Event::Answered {
                outcome: outcome @ (Outcome::Ok | Outcome::No),
                value: Some(value),
            } => {
                let answer = Some((line.at, *outcome == Outcome::Ok, *value));
                let sent = open.remove(line.by.as_str());
                answered.extend(sent.map(|sent| Sent { answer, ..sent }));
            }
            _ => {}
        }
    }
    unknown.extend(open.into_values());
    answered.sort_by_key(|it| it.sent);
    (answered, unknown)
}

/// Where one more access may lead.
fn steps(way: &Way, answered: &[Sent], unknown: &[Sent]) -> Vec<Way> {
    let waiting = || {
        let rest = answered.iter().enumerate().skip(way.done);
        rest.filter(|(number, _)| !way.early.contains(number))
    };
    // Nothing that was sent after this one's answer can come before it. The
    // accesses are in the order of their sending, so that this ends the look.
    let mut earliest = Moment::MAX;
    let mut certain = Vec::new();
    for (number, it) in waiting() {
        if it.sent > earliest {
            break;
        }
        let Some((at, accepted, value)) = it.answer else {
            continue;
        };
        earliest = earliest.min(at);
        let (register, is_let_in) = way.register.after(it);
        if (is_let_in, register.value) != (accepted, value) {
            continue;
        }
        let mut way = way.clone();
        way.register = register;
        way.early.insert(number);
        while way.early.remove(&way.done) {
            way.done += 1;
        }
        certain.push(way);
    }
    // What is last is tried first: what was answered goes before what may have
    // been, so that the search is as straight as it can be.
    let mut next = Vec::new();
    let rest = unknown.iter().enumerate();
    for (number, it) in
        rest.filter(|(number, it)| it.sent <= earliest && !way.unknown.contains(number))
    {
        // One that is refused changes nothing: as if it never came.
        if let (register, true) = way.register.after(it) {
            let mut way = way.clone();
            way.register = register;
            way.unknown.insert(number);
            next.push(way);
        }
    }
    next.extend(certain);
    next
}

impl Register {
    /// What it is after this access, and whether it let it in.
    fn after(self, sent: &Sent) -> (Self, bool) {
        let token = |fence: Option<Shown>| fence.map(|(token, _)| token);
        let is_let_in = match (sent.access, sent.fence) {
            (_, None) => true,
            // An equal token of another holder is refused.
            (Access::Claim, shown) => shown == self.mark || token(shown) > token(self.mark),
            (Access::Read | Access::Write(_), shown) => shown == self.mark,
        };
        let mut after = self;
        match (is_let_in, sent.access) {
            (true, Access::Claim) => after.mark = sent.fence.or(self.mark),
            (true, Access::Write(value)) => after.value = value,
            _ => {}
        }
        (after, is_let_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Line;
    use crate::history::tests::line;

    /// An access from one millisecond to another; without an answer if there is
    /// none.
    fn sent(
        by: &str,
        (from, to): (u64, u64),
        access: Access,
        token: u64,
        answer: Option<(bool, u64)>,
    ) -> Vec<Line> {
        let sends = Event::Sends {
            access,
            token: Some(token),
            // One per worker will do here.
            holder: by.bytes().last().map(u64::from),
        };
        let answered = answer.map(|(accepted, value)| {
            let outcome = match accepted {
                true => Outcome::Ok,
                false => Outcome::No,
            };
            let value = Some(value);
            line(to, by, Event::Answered { outcome, value })
        });
        let mut lines = vec![line(from, by, sends)];
        lines.extend(answered);
        lines
    }

    fn found(accesses: &[Vec<Line>]) -> usize {
        linearizable(&History::new(accesses.concat()), 0).len()
    }

    #[test]
    fn what_one_register_would_answer_passes() {
        let overtaken = [
            sent("a", (1, 2), Access::Claim, 1, Some((true, 0))),
            // At the same time, and done in the other order.
            sent("a", (3, 9), Access::Write(1), 1, Some((false, 5))),
            sent("b", (4, 5), Access::Claim, 2, Some((true, 0))),
            sent("b", (6, 8), Access::Write(5), 2, Some((true, 5))),
        ];
        assert_eq!(found(&overtaken), 0);
    }

    #[test]
    fn a_stale_write_that_got_in_is_found() {
        let stale = [
            sent("a", (1, 2), Access::Claim, 1, Some((true, 0))),
            sent("b", (3, 4), Access::Claim, 2, Some((true, 0))),
            sent("a", (5, 6), Access::Write(1), 1, Some((true, 1))),
        ];
        assert_eq!(found(&stale), 1);
    }

    #[test]
    fn a_token_that_two_have_lets_in_the_first_of_them() {
        let twice = |accepted| {
            [
                sent("a", (1, 2), Access::Claim, 1, Some((true, 0))),
                sent("b", (3, 4), Access::Claim, 1, Some((accepted, 0))),
                sent("a", (5, 6), Access::Write(1), 1, Some((true, 1))),
            ]
        };
        assert_eq!(found(&twice(false)), 0);
        assert_eq!(found(&twice(true)), 1);
    }

    #[test]
    fn a_read_of_what_was_not_there_any_more_is_found() {
        let old = |from| {
            [
                sent("a", (1, 2), Access::Claim, 1, Some((true, 0))),
                sent("a", (3, 6), Access::Write(1), 1, Some((true, 1))),
                sent("b", (from, from + 3), Access::Claim, 2, Some((true, 0))),
            ]
        };
        assert_eq!(found(&old(7)), 1);
        // A write that the claim would have shut out, had it come before.
        assert_eq!(found(&old(5)), 1);
    }

    #[test]
    fn an_access_without_an_answer_was_done_or_not() {
        let with = |value| {
            [
                sent("a", (1, 2), Access::Claim, 1, Some((true, 0))),
                sent("a", (3, 3), Access::Write(1), 1, None),
                sent("b", (5, 6), Access::Claim, 2, Some((true, value))),
            ]
        };
        assert_eq!(found(&with(0)), 0);
        assert_eq!(found(&with(1)), 0);
        assert_eq!(found(&with(2)), 1);
    }

    #[test]
    fn a_long_history_of_many_is_looked_through() {
        let mut accesses = Vec::new();
        for round in 0..2_000 {
            let (at, token) = (round * 10 + 1, round + 1);
            let by = format!("w{}", round % 4);
            accesses.push(sent(
                &by,
                (at, at + 2),
                Access::Claim,
                token,
                Some((true, round)),
            ));
            // Refused at the same time, and one that was never answered.
            accesses.push(sent(
                "late",
                (at + 3, at + 5),
                Access::Claim,
                0,
                Some((false, round)),
            ));
            if round % 50 == 0 {
                accesses.push(sent("dead", (at, at), Access::Write(7), 0, None));
            }
            let write = Access::Write(round + 1);
            accesses.push(sent(
                &by,
                (at + 6, at + 9),
                write,
                token,
                Some((true, round + 1)),
            ));
        }
        assert_eq!(found(&accesses), 0);
        let last = accesses.len() - 1;
        accesses[last] = sent(
            "w3",
            (19_997, 20_000),
            Access::Write(9),
            2_000,
            Some((false, 1)),
        );
        assert_eq!(found(&accesses), 1);
    }
}
