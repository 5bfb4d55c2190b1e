//! The store lets in no more than there is room for. What it granted is told by
//! its own answers, and by somebody who looks at it; what workers believe is
//! looked at elsewhere.

use std::collections::BTreeMap;

use leasehold::engine::Freed;

use super::crowd::{Crowd, Lasts, crowds};
use super::{Violation, clock};
use crate::history::{Event, History, Moment};

/// Stores count in whole milliseconds, some of them in the last one that is over.
const WHOLE: Moment = 2_000_000;

/// A claim that certainly held in the store, from one moment to another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    name: String,
    token: Option<u64>,
    from: Moment,
    to: Moment,
    /// The line that tells of it first.
    line: usize,
}

impl Lasts for Grant {
    fn name(&self) -> &str {
        &self.name
    }

    fn span(&self) -> (Moment, Moment) {
        (self.from, self.to)
    }

    fn line(&self) -> usize {
        self.line
    }
}

/// A claim of a worker that has not been taken away.
struct Standing<'a> {
    by: &'a str,
    holder: u64,
    grant: Grant,
}

/// Grants of one lock at a moment at which the store had given away all of it.
///
/// A claim stands from the store's answer that it holds until the store is asked
/// to take it away, or for as long as the store promised to keep it, whatever its
/// worker does meanwhile; and as long as it is seen in the store. Where the store
/// frees at once what the dead held, it stands until then.
#[must_use]
pub fn exclusion(history: &History, permits: usize, crash: Freed) -> Vec<Violation> {
    let grants = grants(history, crash);
    let violation = |two: Crowd<'_, Grant>| {
        let [a, b] = [two.earlier, two.later].map(|grant| match grant.token {
            Some(token) => format!("token {token}"),
            None => "another token".to_owned(),
        });
        Violation {
            invariant: "exclusion",
            text: format!(
                "the store had granted {} with {a} and granted it with {b} at {}",
                two.later.name,
                clock(history, two.later.from)
            ),
            lines: two.lines(),
            span: two.span(),
        }
    };
    crowds(&grants, permits)
        .into_iter()
        .map(violation)
        .collect()
}

/// Grants of a mutex that still stood when they were told, after one with a greater
/// token had been told: tokens say in which order the store granted, so it granted
/// the latter while the former stood, whatever anybody believed by then.
#[must_use]
pub fn overtaken(history: &History) -> Vec<Violation> {
    let mut greatest: BTreeMap<&str, (u64, usize, Moment)> = BTreeMap::new();
    let mut violations = Vec::new();
    for (number, line) in history.lines.iter().enumerate() {
        let Event::Granted {
            name,
            token: Some(token),
            until: Some(until),
        } = &line.event
        else {
            continue;
        };
        match greatest.get(&**name) {
            Some((newer, first, at)) if token < newer && *until > line.at => {
                violations.push(Violation {
                    invariant: "exclusion",
                    text: format!(
                        "the store granted {name} with token {newer} while it was granted with \
                         token {token}, as {} was told at {}",
                        line.by,
                        clock(history, line.at)
                    ),
                    lines: [*first, number],
                    span: (*at, line.at),
                });
            }
            Some((newer, ..)) if token <= newer => {}
            _ => {
                greatest.insert(name, (*token, number, line.at));
            }
        }
    }
    violations
}

/// All claims that held for a time.
fn grants(history: &History, crash: Freed) -> Vec<Grant> {
    let mut standing: Vec<Standing<'_>> = Vec::new();
    let mut grants: BTreeMap<u64, Vec<Grant>> = BTreeMap::new();
    for (number, line) in history.lines.iter().enumerate() {
        match &line.event {
            Event::Stands {
                name,
                holder,
                token,
                until,
            } => {
                let promised = until.saturating_sub(WHOLE);
                match standing.iter_mut().find(|it| it.holder == *holder) {
                    Some(it) => it.grant.to = promised.max(it.grant.to),
                    None => standing.push(Standing {
                        by: &line.by,
                        holder: *holder,
                        grant: Grant {
                            name: name.clone(),
                            token: Some(*token),
                            from: line.at,
                            to: promised,
                            line: number,
                        },
                    }),
                }
            }
            Event::Keeps { holders, until } => {
                for it in &mut standing {
                    if holders.contains(&it.holder) {
                        it.grant.to = it.grant.to.max(until.saturating_sub(WHOLE));
                    }
                }
            }
            Event::Yields { holder } => {
                let ends = |it: &mut Standing<'_>| it.holder == *holder;
                end(&mut standing, &mut grants, line.at, ends);
            }
            Event::Killed if crash == Freed::AtOnce => {
                let ends = |it: &mut Standing<'_>| it.by == line.by;
                end(&mut standing, &mut grants, line.at, ends);
            }
            Event::Killed => {
                let ends = |it: &mut Standing<'_>| it.by == line.by;
                end(&mut standing, &mut grants, Moment::MAX, ends);
            }
            Event::Seen {
                name,
                holder,
                token,
                from,
                to,
            } => {
                let grant = Grant {
                    name: name.clone(),
                    token: *token,
                    from: *from,
                    to: *to,
                    line: number,
                };
                join(&mut grants, *holder, grant);
            }
            _ => {}
        }
    }
    end(&mut standing, &mut grants, Moment::MAX, |_| true);
    let mut grants: Vec<_> = grants.into_values().flatten().collect();
    grants.retain(|grant| grant.from < grant.to);
    grants
}

/// These stand no longer than until then.
fn end(
    standing: &mut Vec<Standing<'_>>,
    grants: &mut BTreeMap<u64, Vec<Grant>>,
    at: Moment,
    ends: impl FnMut(&mut Standing<'_>) -> bool,
) {
    for Standing { holder, grant, .. } in standing.extract_if(.., ends) {
        let to = grant.to.min(at);
        join(grants, holder, Grant { to, ..grant });
    }
}

/// A claim comes and goes once: what is known of it from two sides is known of all
/// the time between. One that was asked for again under a new token is another.
fn join(grants: &mut BTreeMap<u64, Vec<Grant>>, holder: u64, grant: Grant) {
    // One that was never certain says nothing of when.
    if grant.from >= grant.to {
        return;
    }
    let known = grants.entry(holder).or_default();
    let is_it = |it: &&mut Grant| {
        it.token
            .is_none_or(|token| grant.token.is_none_or(|new| new == token))
    };
    match known.iter_mut().find(is_it) {
        None => known.push(grant),
        Some(known) => {
            known.from = known.from.min(grant.from);
            known.to = known.to.max(grant.to);
            known.line = known.line.min(grant.line);
            known.token = known.token.or(grant.token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Line;
    use crate::history::tests::{granted, line};

    fn stands(holder: u64, until: u64) -> Event {
        Event::Stands {
            name: "l".into(),
            holder,
            token: holder,
            until: until * 1_000_000,
        }
    }

    fn keeps(holder: u64, until: u64) -> Event {
        let (holders, until) = (vec![holder], until * 1_000_000);
        Event::Keeps { holders, until }
    }

    fn found(lines: &[Line], crash: Freed) -> usize {
        exclusion(&History::new(lines.to_vec()), 1, crash).len()
    }

    #[test]
    fn a_grant_before_the_promise_to_another_is_over_is_found_whatever_that_one_believes() {
        let lost = Event::Lost { why: "late".into() };
        let lines = |at| {
            vec![
                line(1, "a", stands(1, 100)),
                line(30, "a", keeps(1, 130)),
                line(60, "a", lost.clone()),
                line(at, "b", stands(2, 200)),
            ]
        };
        let early = exclusion(&History::new(lines(120)), 1, Freed::AfterTtl);
        assert_eq!(early.len(), 1, "{early:?}");
        assert_eq!(early[0].lines, [0, 3]);
        assert_eq!(early[0].span, (120_000_000, 128_000_000));
        assert_eq!(found(&lines(128), Freed::AfterTtl), 0);
    }

    #[test]
    fn what_was_given_back_may_be_granted_and_so_may_what_the_dead_held_where_that_is_seen() {
        let yields = Event::Yields { holder: 1 };
        for (ends, at_once, after_ttl) in [(yields, 0, 0), (Event::Killed, 0, 1)] {
            let lines = [
                line(1, "a", stands(1, 100)),
                line(20, "a", ends),
                line(21, "b", stands(2, 200)),
            ];
            assert_eq!(found(&lines, Freed::AtOnce), at_once);
            assert_eq!(found(&lines, Freed::AfterTtl), after_ttl);
        }
    }

    #[test]
    fn a_claim_that_is_seen_before_and_after_another_stood_all_the_while() {
        let seen = |holder, from: u64, to: u64| Event::Seen {
            name: "l".into(),
            holder,
            token: None,
            from: from * 1_000_000,
            to: to * 1_000_000,
        };
        let yields = Event::Yields { holder: 1 };
        let lines = |last| {
            [
                line(1, "a", stands(1, 100)),
                line(20, "a", yields.clone()),
                line(50, "store", seen(1, 5, last)),
                line(51, "store", seen(2, 30, 40)),
            ]
        };
        assert_eq!(found(&lines(29), Freed::AfterTtl), 0);
        assert_eq!(found(&lines(35), Freed::AfterTtl), 1);
    }

    #[test]
    fn a_claim_that_is_asked_for_again_under_a_new_token_did_not_stand_between() {
        let seen = |holder, token, from: u64, to: u64| Event::Seen {
            name: "l".into(),
            holder,
            token: Some(token),
            from: from * 1_000_000,
            to: to * 1_000_000,
        };
        let lines = |token| {
            [
                line(20, "store", seen(1, 5, 10, 15)),
                line(40, "store", seen(2, 6, 20, 30)),
                line(60, "store", seen(1, token, 40, 50)),
            ]
        };
        assert_eq!(found(&lines(5), Freed::AfterTtl), 1);
        assert_eq!(found(&lines(7), Freed::AfterTtl), 0);
    }

    #[test]
    fn an_older_grant_that_is_told_later_and_still_stands_is_found() {
        let told = |until| {
            overtaken(&History::new(vec![
                line(5, "b", granted(9, 15)),
                line(6, "b", Event::Releases),
                line(7, "a", granted(8, until)),
            ]))
        };
        let found = told(15);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].lines, [0, 2]);
        assert_eq!(told(7), [], "its time was over");
    }

    #[test]
    fn a_semaphore_has_room_for_as_many_as_it_has_permits() {
        let lines = [
            line(1, "a", stands(1, 100)),
            line(2, "b", stands(2, 100)),
            line(3, "c", stands(3, 100)),
        ];
        let history = History::new(lines.to_vec());
        assert_eq!(exclusion(&history, 3, Freed::AfterTtl), []);
        assert_eq!(exclusion(&history, 2, Freed::AfterTtl).len(), 1);
    }
}
