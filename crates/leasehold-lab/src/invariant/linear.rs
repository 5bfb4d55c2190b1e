//! What the workers were answered is what one fenced register would answer, in
//! some order in which no access comes after one that was sent when it had been
//! answered already. The decisions that the resource tells are not looked at.
//!
//! The search is that of Wing and Gong, with Lowe's memory of where it has been.
//! An access without an answer may have been done at any time, or never. The
//! memory keeps no more of those than can still make a difference: else each
//! would double the ways through a history that nothing explains.

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
    /// Those without an answer that have been done, and would be let in again.
    unknown: BTreeSet<usize>,
}

/// A search ends after so many steps for each access, and some more.
const STEPS: usize = 20;
const SOME_MORE: usize = 100_000;

/// One violation if no order of the accesses explains the answers, at the access
/// where the longest attempt ended; another if that cannot be told in time.
#[must_use]
pub fn linearizable(history: &History, begin: u64) -> Vec<Violation> {
    let (answered, unknown) = accesses(history);
    let limit = STEPS * (answered.len() + unknown.len()) + SOME_MORE;
    search(history, begin, (&answered, &unknown), limit)
}

fn search(
    history: &History,
    begin: u64,
    (answered, unknown): (&[Sent], &[Sent]),
    limit: usize,
) -> Vec<Violation> {
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
    let (mut furthest, mut count) = (0, 0);
    while let Some(way) = ways.pop() {
        if way.done == answered.len() {
            return Vec::new();
        }
        furthest = furthest.max(way.done);
        count += 1;
        if count > limit {
            break;
        }
        let next = steps(&way, answered, unknown);
        ways.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    let stuck = &answered[furthest];
    let before = answered[..furthest].last().unwrap_or(stuck);
    let at = stuck.answer.map_or(stuck.sent, |(at, ..)| at);
    let (by, when) = (&stuck.by, clock(history, at));
    let (invariant, text) = match count > limit {
        false => (
            "linearizability",
            format!("no order of all accesses explains the answer that {by} got at {when}"),
        ),
        true => (
            "not decided",
            format!(
                "{limit} steps led to no order of all accesses, none of them past the answer that {by} got at {when}"
            ),
        ),
    };
    vec![Violation {
        invariant,
        text,
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
    unknown.sort_by_key(|it| it.sent);
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
        let mut way = way.with(register, unknown);
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
    let sent = rest.take_while(|(_, it)| it.sent <= earliest);
    for (number, it) in sent.filter(|(number, _)| !way.unknown.contains(number)) {
        // One that changes nothing is as if it never came.
        let (register, _) = way.register.after(it);
        if register != way.register {
            let mut way = way.with(register, unknown);
            // A claim that has the mark would change nothing once more.
            if it.access != Access::Claim {
                way.unknown.insert(number);
            }
            next.push(way);
        }
    }
    next.extend(certain);
    next
}

impl Way {
    /// The same with this register. What it lets in no more is forgotten: marks
    /// only grow.
    fn with(&self, register: Register, unknown: &[Sent]) -> Self {
        let mut way = self.clone();
        if register.mark != way.register.mark {
            let stays = |fence: Option<Shown>| fence.is_none() || fence == register.mark;
            way.unknown.retain(|&number| stays(unknown[number].fence));
        }
        way.register = register;
        way
    }
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

    /// Two thousand holds with a claim and a write each. Every 17th access has no
    /// answer and was done all the same.
    fn with_lost_answers() -> Vec<Vec<Line>> {
        let mut accesses = Vec::new();
        let mut value = 0;
        for round in 0..2_000 {
            let (at, token) = (round * 10 + 1, round + 1);
            let by = format!("w{}", round % 4);
            let mut send = |(from, to), access, answer| {
                let is_lost = accesses.len() % 17 == 16;
                let answer = Some(answer).filter(|_| !is_lost);
                accesses.push(sent(&by, (from, to), access, token, answer));
                !is_lost
            };
            if send((at, at + 2), Access::Claim, (true, value)) {
                value += 1;
                send((at + 6, at + 9), Access::Write(value), (true, value));
            }
        }
        accesses
    }

    #[test]
    fn many_answers_that_never_came_do_not_make_the_search_endless() {
        let mut accesses = with_lost_answers();
        assert_eq!(found(&accesses), 0);
        let wrong = Some((true, 1));
        accesses.push(sent("w", (30_000, 30_001), Access::Claim, 9_999, wrong));
        let violations = linearizable(&History::new(accesses.concat()), 0);
        let found: Vec<_> = violations.iter().map(|it| it.invariant).collect();
        assert_eq!(found, ["linearizability"]);
    }

    #[test]
    fn a_search_that_takes_too_long_says_that_it_decided_nothing() {
        let history = History::new(with_lost_answers().concat());
        let (answered, unknown) = accesses(&history);
        let found = search(&history, 0, (&answered, &unknown), 500);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].invariant, "not decided");
        assert!(found[0].text.starts_with("500 steps"), "{found:?}");
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
