//! Real servers: what lies in each store, what happens when servers and connections fail,
//! who else shares the locks, and what fences, jobs and messages make of them.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

mod dedupe;
mod docs;
mod etcd;
mod fence;
mod interop;
mod mysql;
mod once;
mod postgres;
mod redis;
mod redlock;
mod servers;
mod sql;
mod zookeeper;

use std::process::ExitCode;

use leasehold::conformance::{is_peer, peer_main};

/// Waits until a hold has been renewed so often.
async fn renewed(guard: &leasehold::Guard, times: usize) {
    for _ in 0..times {
        let mut least = guard.valid_for();
        while guard.valid_for() <= least {
            guard.check().unwrap();
            least = guard.valid_for();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

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
    trials.extend(fence::trials());
    trials.extend(sql::trials());
    testbed::run_trials(AT_ONCE, trials)
}
