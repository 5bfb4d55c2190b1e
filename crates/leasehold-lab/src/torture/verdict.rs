//! What a run says of its store.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Plan;
use crate::fault::Answer;
use crate::history::{Event, History};
use crate::hold::holds;
use crate::invariant::{
    Violation, exclusion, lost_updates, progress, stale_writes, token_order, told_in_time,
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

/// Faults under which two may believe to hold on this store, as its page says.
fn lets_two_in(store: &str, fault: &str) -> bool {
    match store {
        // Expiry goes by the server's wall clock, and a server that forgets has
        // nobody to ask.
        "redis" => matches!(fault, "clock" | "restart-empty"),
        "redlock" => fault == "clock",
        _ => false,
    }
}

impl Verdict {
    pub(super) fn new(
        plan: &Plan,
        history: &History,
        answers: Vec<(&'static str, Answer)>,
        workers: &[String],
        bound: Duration,
        left: usize,
    ) -> Self {
        let (mut broken, mut allowed) = (Vec::new(), Vec::new());
        let two = plan
            .faults
            .iter()
            .any(|fault| lets_two_in(plan.kind.name, fault.name));
        let two = match two {
            true => Expected::Possible,
            false => Expected::Never,
        };
        // Nobody's lock survives a pause between the last look and the write.
        let pauses = plan.faults.iter().any(|fault| fault.name == "pause");
        let unfenced = match (plan.fenced, two, pauses) {
            (true, _, _) => Expected::Never,
            (false, Expected::Never, false) => Expected::Never,
            _ => Expected::Possible,
        };
        let bound = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let found = [
            (two, exclusion(history)),
            (two, told_in_time(history)),
            (tokens(plan), token_order(history)),
            (unfenced, stale_writes(history)),
            (unfenced, lost_updates(history, "ledger")),
            (
                Expected::Never,
                progress(history, "liveness", workers, bound),
            ),
            (Expected::Never, leftover(history, left)),
        ];
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
            answers,
        }
    }

    /// Violations of both kinds, for the picture.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.broken.iter().chain(&self.allowed).cloned().collect()
    }
}

/// Tokens of one Redis server go by its clock: grade B. One that forgets, or
/// whose clock is set back, may repeat itself.
fn tokens(plan: &Plan) -> Expected {
    let is_at_risk = |name: &str| matches!(name, "clock" | "restart-empty");
    let at_risk = plan.faults.iter().any(|fault| is_at_risk(fault.name));
    match plan.kind.name == "redis" && at_risk {
        true => Expected::Possible,
        false => Expected::Never,
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
