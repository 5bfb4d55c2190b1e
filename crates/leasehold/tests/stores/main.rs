//! Real servers: what lies in each store, what happens when servers and connections fail,
//! who else shares the locks, and what fences, jobs and messages make of them.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

mod dedupe;
mod docs;
mod ensemble;
mod etcd;
mod fence;
mod interop;
mod mysql;
mod once;
mod pools;
mod postgres;
mod redis;
mod redlock;
mod servers;
mod sql;
mod steps;
mod zookeeper;

use std::process::ExitCode;

use leasehold::conformance::{is_peer, peer_main};
use steps::{LONG, answered, renewed};

/// Tests at the same time. They mostly wait.
const AT_ONCE: usize = 6;

fn main() -> ExitCode {
    // Tests start this program again, as somebody else who uses the store.
    if is_peer() {
        peer_main(None);
    }
    let roles = [dedupe::play, etcd::play, fence::play, once::play];
    if roles.iter().any(|play| play()) {
        return ExitCode::SUCCESS;
    }
    let mut trials = interop::trials();
    trials.extend(ensemble::trials());
    trials.extend(fence::trials());
    trials.extend(sql::trials());
    testbed::run_trials(AT_ONCE, trials)
}
