//! What a run says of its store.

use std::time::Duration;

use leasehold::engine::{Grade, Promises};

use super::Plan;
use super::excuse::{Excuse, Happened, Lies};
use crate::fault::{FAILOVER, PAUSE_AT_WRITE, RESTART_ALL_EMPTY, SWITCH};
use crate::history::History;
use crate::hold::holds;
use crate::invariant::{
    Violation, belief, capacity, ends_well, exclusion, linearizable, lost_updates, nothing_left,
    order_of_service, overtaken, progress, stale_writes, token_order, told_in_time,
};

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What happened.
    pub history: History,
    /// What must never happen, and did.
    pub broken: Vec<Violation>,
    /// What the theory allows under these faults, and happened.
    pub allowed: Vec<Violation>,
    /// The faults, and what became of each.
    pub faults: Vec<Happened>,
    /// How many times the lock was granted.
    pub grants: usize,
}

/// Whether two may believe to hold under this fault, by what the store promises,
/// and whether another server takes over from one that is away.
fn lets_two_in(promises: Promises, takes_over: bool, fault: &str) -> bool {
    // A store whose tokens are ordered whatever happens knows when it forgot.
    let may_forget = !promises.durable && promises.fence < Grade::Ordered;
    match fault {
        // A clock that jumps lets a store forget before the time; one that
        // promises to be durable must not.
        "clock" => !promises.durable,
        // And when nothing is left of it, there is nothing by which to know.
        RESTART_ALL_EMPTY => !promises.durable,
        "restart-empty" | FAILOVER | SWITCH => may_forget,
        "restart" | "pause-server" => takes_over && may_forget,
        _ => false,
    }
}

/// What is known at the end of a run, beside its history.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) faults: Vec<Happened>,
    pub(super) workers: Vec<String>,
    /// How long everybody may take after the faults.
    pub(super) bound: Duration,
    /// What is left in the store, in words.
    pub(super) left: Vec<String>,
    pub(super) promises: Promises,
    /// Whether another server takes over from one that is away.
    pub(super) takes_over: bool,
}

impl Verdict {
    pub(super) fn new(plan: &Plan, history: &History, ended: Ended) -> Self {
        let promises = ended.promises;
        let excuse =
            |explains: &dyn Fn(&str) -> bool| Excuse::of(&ended.faults, plan.ttl_millis, explains);
        let lets_two_in = |fault: &str| lets_two_in(promises, ended.takes_over, fault);
        let two = excuse(&lets_two_in);
        // Tokens that go by a clock may repeat themselves where two may hold.
        let tokens = match promises.fence {
            Grade::Ordered => Excuse::default(),
            _ => two.clone(),
        };
        // Nobody's lock survives a pause between the last look and the write.
        let unfenced = match plan.fenced {
            true => Excuse::default(),
            false => {
                excuse(&|fault| matches!(fault, "pause" | PAUSE_AT_WRITE) || lets_two_in(fault))
            }
        };
        let never = Excuse::default();
        // What was written with a clock that was ahead is kept for longer.
        let clock = excuse(&|fault| fault == "clock");
        let bound = u64::try_from(ended.bound.as_nanos()).unwrap_or(u64::MAX);
        let mut found = vec![
            (&tokens, Lies::Meets, token_order(history)),
            (
                &never,
                Lies::Within,
                progress(history, "liveness", &ended.workers, bound),
            ),
            (&clock, Lies::Meets, nothing_left(history, &ended.left)),
            (&never, Lies::Within, ends_well(history)),
        ];
        let permits = usize::try_from(plan.permits).unwrap_or(usize::MAX);
        found.push((&two, Lies::Within, told_in_time(history, permits)));
        let granted = exclusion(history, permits, promises.crash);
        found.push((&two, Lies::Within, granted));
        if permits > 1 {
            found.push((&two, Lies::Within, capacity(history, permits)));
        } else {
            found.extend([
                (&two, Lies::Within, belief(history)),
                (&unfenced, Lies::Begins, stale_writes(history)),
                (&unfenced, Lies::Begins, lost_updates(history, "ledger")),
                (&never, Lies::Within, linearizable(history, 0)),
            ]);
        }
        // Tokens tell who was granted first, unless they go by a clock and may have
        // gone back.
        if permits == 1 && (promises.fence == Grade::Ordered || two.is_empty()) {
            found.push((&two, Lies::Within, overtaken(history)));
        }
        if promises.fair && plan.permits == 1 {
            // Who comes to a store that forgot may be first in its new queue.
            found.push((&two, Lies::Begins, order_of_service(history)));
        }
        let (mut broken, mut allowed) = (Vec::new(), Vec::new());
        for (excuse, lies, violations) in found {
            for violation in violations {
                match excuse.explains(lies, &violation) {
                    true => allowed.push(violation),
                    false => broken.push(violation),
                }
            }
        }
        Self {
            history: history.clone(),
            grants: holds(history).len(),
            broken,
            allowed,
            faults: ended.faults,
        }
    }

    /// Violations of both kinds, for the picture.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.broken.iter().chain(&self.allowed).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Answer, Fault};
    use crate::ground::Kind;
    use crate::history::Event;
    use crate::history::tests::{granted, line};
    use leasehold::engine::Reach;

    const MILLISECOND: u64 = 1_000_000;

    /// Two who hold at once on a store that may forget, at three seconds, and a
    /// clock that jumped from so many milliseconds on, or did not.
    fn verdict(clock: Answer, from: u64) -> Verdict {
        let history = History::new(vec![
            line(2_000, "w1", granted(1, 3_500)),
            line(3_000, "w2", granted(2, 4_500)),
            line(3_100, "w1", Event::Releases),
            line(3_200, "w2", Event::Releases),
        ]);
        let mut verdict = judged(&history, clock, from);
        verdict.broken.retain(|it| it.invariant == "belief");
        verdict
    }

    /// What is said of this history on a store that may forget.
    fn judged(history: &History, clock: Answer, from: u64) -> Verdict {
        let named = |name| Fault::find(name).copied();
        let plan = Plan {
            kind: Kind::find("redis").unwrap(),
            faults: ["cut", "clock"].into_iter().filter_map(named).collect(),
            seed: 1,
            length: Duration::from_secs(4),
            workers: 2,
            ttl_millis: 1_500,
            work_millis: 15,
            long_work_millis: None,
            permits: 1,
            fenced: true,
            sabotage: None,
        };
        let happened = |fault, answer, from: u64| Happened {
            fault,
            answer,
            span: (from * MILLISECOND, (from + 200) * MILLISECOND),
        };
        let ended = Ended {
            faults: vec![
                happened("cut", Answer::Installed, 2_900),
                happened("clock", clock, from),
            ],
            workers: Vec::new(),
            bound: Duration::ZERO,
            left: Vec::new(),
            promises: Promises::least(Reach::Network),
            takes_over: false,
        };
        Verdict::new(&plan, history, ended)
    }

    #[test]
    fn two_holders_are_excused_by_a_jump_of_the_clock_that_took_place_then() {
        let installed = verdict(Answer::Installed, 2_950);
        assert_eq!(installed.broken.len(), 0, "{:?}", installed.broken);
        assert_eq!(installed.allowed.len(), 1, "{:?}", installed.allowed);
        for (answer, from) in [
            (Answer::Skipped("no clock to move".into()), 2_950),
            (Answer::Installed, 100),
            (Answer::Installed, 3_050),
        ] {
            let verdict = verdict(answer.clone(), from);
            assert_eq!(verdict.broken.len(), 1, "{answer:?} at {from}");
            assert_eq!(verdict.allowed, [], "{answer:?} at {from}");
        }
    }

    #[test]
    fn tokens_that_a_clock_may_have_turned_back_say_nothing_of_who_was_granted_first() {
        let history = History::new(vec![
            line(2_000, "w1", granted(9, 3_500)),
            line(2_100, "w1", Event::Releases),
            line(2_600, "w2", granted(8, 4_500)),
            line(2_700, "w2", Event::Releases),
        ]);
        let found = |answer| {
            let verdict = judged(&history, answer, 2_200);
            let all = verdict.violations();
            all.iter().any(|it| it.invariant == "exclusion")
        };
        assert!(!found(Answer::Installed));
        assert!(found(Answer::Skipped("no clock to move".into())));
    }

    #[test]
    fn servers_that_know_that_they_forgot_let_nobody_in_unless_all_of_them_did() {
        let mut ordered = Promises::least(Reach::Network);
        assert!(lets_two_in(ordered, false, "restart-empty"));
        ordered.fence = Grade::Ordered;
        assert!(!lets_two_in(ordered, false, "restart-empty"));
        assert!(lets_two_in(ordered, false, RESTART_ALL_EMPTY));
    }

    #[test]
    fn a_server_that_is_away_lets_two_in_only_where_another_takes_over() {
        let forgets = Promises::least(Reach::Network);
        let mut durable = forgets;
        durable.durable = true;
        for fault in ["restart", "pause-server"] {
            assert!(lets_two_in(forgets, true, fault));
            assert!(!lets_two_in(forgets, false, fault));
            assert!(!lets_two_in(durable, true, fault));
        }
    }
}
