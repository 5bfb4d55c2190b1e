//! What a run says of its store.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::engine::{Grade, Promises};

use super::Plan;
use crate::fault::{Answer, FAILOVER, PAUSE_AT_WRITE};
use crate::history::{Event, History};
use crate::hold::holds;
use crate::invariant::{
    Violation, capacity, exclusion, linearizable, lost_updates, order_of_service, progress,
    stale_writes, token_order, told_in_time,
};
use crate::recorder::Recorder;

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What happened.
    pub history: History,
    /// What must never happen, and did.
    pub broken: Vec<Violation>,
    /// What the theory allows under these faults, and happened.
    pub allowed: Vec<Violation>,
    /// What became of each fault.
    pub answers: Vec<(&'static str, Answer)>,
    /// How many times the lock was granted.
    pub grants: usize,
}

/// Whether a violation may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Never.
    Never,
    /// Under these faults on this store.
    Possible,
}

/// Whether two may believe to hold under this fault, by what the store promises.
fn lets_two_in(promises: Promises, fault: &str) -> bool {
    match fault {
        // A clock that jumps lets a store forget before the time; one that
        // promises to be durable must not.
        "clock" => !promises.durable,
        // A store whose tokens are ordered whatever happens knows when it forgot.
        "restart-empty" | FAILOVER => !promises.durable && promises.fence < Grade::Ordered,
        _ => false,
    }
}

/// What is known at the end of a run, beside its history.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) answers: Vec<(&'static str, Answer)>,
    pub(super) workers: Vec<String>,
    /// How long everybody may take after the faults.
    pub(super) bound: Duration,
    /// How many claims are left.
    pub(super) left: usize,
    pub(super) promises: Promises,
}

impl Verdict {
    pub(super) fn new(plan: &Plan, history: &History, ended: Ended) -> Self {
        let promises = ended.promises;
        let has = |happens: &dyn Fn(&str) -> bool| match plan
            .faults
            .iter()
            .any(|fault| happens(fault.name))
        {
            true => Expected::Possible,
            false => Expected::Never,
        };
        let two = has(&|fault| lets_two_in(promises, fault));
        // Tokens that go by a clock may repeat themselves where two may hold.
        let tokens = match promises.fence {
            Grade::Ordered => Expected::Never,
            _ => two,
        };
        // Nobody's lock survives a pause between the last look and the write.
        let pauses = has(&|fault| matches!(fault, "pause" | PAUSE_AT_WRITE));
        let unfenced = match (plan.fenced, two, pauses) {
            (true, _, _) | (false, Expected::Never, Expected::Never) => Expected::Never,
            _ => Expected::Possible,
        };
        let bound = u64::try_from(ended.bound.as_nanos()).unwrap_or(u64::MAX);
        let mut found = vec![
            (tokens, token_order(history)),
            (
                Expected::Never,
                progress(history, "liveness", &ended.workers, bound),
            ),
            (Expected::Never, leftover(history, ended.left)),
        ];
        if plan.permits > 1 {
            let permits = usize::try_from(plan.permits).unwrap_or(usize::MAX);
            found.push((two, capacity(history, permits)));
        } else {
            found.extend([
                (two, exclusion(history)),
                (two, told_in_time(history)),
                (unfenced, stale_writes(history)),
                (unfenced, lost_updates(history, "ledger")),
                (Expected::Never, linearizable(history, 0)),
            ]);
        }
        if promises.fair && plan.permits == 1 {
            // Who comes to a store that forgot may be first in its new queue.
            found.push((two, order_of_service(history)));
        }
        let (mut broken, mut allowed) = (Vec::new(), Vec::new());
        for (expected, violations) in found {
            match expected {
                Expected::Never => broken.extend(violations),
                Expected::Possible => allowed.extend(violations),
            }
        }
        Self {
            history: history.clone(),
            grants: holds(history).len(),
            broken,
            allowed,
            answers: ended.answers,
        }
    }

    /// Violations of both kinds, for the picture.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.broken.iter().chain(&self.allowed).cloned().collect()
    }
}

fn leftover(history: &History, left: usize) -> Vec<Violation> {
    let last = history.lines.len().saturating_sub(1);
    let end = history.span().1;
    let violation = Violation {
        invariant: "nothing left behind",
        text: format!("{left} claims are left in the queue when all are gone"),
        lines: [last, last],
        span: (end, end),
    };
    (left > 0).then_some(violation).into_iter().collect()
}

/// Whether everybody has been granted the lock since the faults ended.
pub(super) fn all_served(recorder: &Recorder, workers: &[String]) -> bool {
    let history = recorder.history();
    let mut lines = history.lines.iter();
    let is_phase = |event: &Event| matches!(event, Event::Phase { name } if name == "liveness");
    if !lines.any(|line| is_phase(&line.event)) {
        return false;
    }
    let granted = lines.filter(|line| matches!(line.event, Event::Granted { .. }));
    let served: BTreeSet<_> = granted.map(|line| &line.by).collect();
    workers.iter().all(|worker| served.contains(worker))
}
