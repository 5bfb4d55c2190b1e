//! Counters and histograms, through the `metrics` facade: nothing is exported
//! unless the program installs a recorder.

use std::time::Duration;

use crate::guard::Lost;

/// Grants, including hand-overs inside the process.
pub(crate) fn acquired(store: &'static str, waited: Duration) {
    metrics::counter!("leasehold_acquired_total", "store" => store).increment(1);
    metrics::histogram!("leasehold_waited_seconds", "store" => store).record(waited.as_secs_f64());
}

/// Holds given back, and how long they lasted.
pub(crate) fn released(store: &'static str, held: Duration) {
    metrics::histogram!("leasehold_held_seconds", "store" => store).record(held.as_secs_f64());
}

/// Renewal requests and whether they were granted.
pub(crate) fn renewal(store: &'static str, outcome: &'static str) {
    metrics::counter!("leasehold_renewals_total", "store" => store, "outcome" => outcome)
        .increment(1);
}

/// Holds that were lost, by reason.
pub(crate) fn lost(store: &'static str, lost: Lost) {
    metrics::counter!("leasehold_lost_total", "store" => store, "reason" => reason(lost))
        .increment(1);
}

/// Holds that outlived the time they were expected to take.
pub(crate) fn stuck(store: &'static str) {
    metrics::counter!("leasehold_stuck_total", "store" => store).increment(1);
}

fn reason(lost: Lost) -> &'static str {
    match lost {
        Lost::Deadline => "deadline",
        Lost::Gone => "gone",
        Lost::Evicted => "evicted",
        Lost::HoldLimit => "hold_limit",
        Lost::Closed => "closed",
    }
}
