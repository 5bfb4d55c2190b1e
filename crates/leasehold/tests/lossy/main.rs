//! Every request of an operation is lost once, and so is every reply: nothing is granted
//! twice, nothing is left behind.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

mod losing;
mod operations;
mod redis;
mod redlock;
mod scene;
mod steps;

use std::process::ExitCode;

/// Trials at the same time; each is several scenes, which mostly wait.
const AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let mut trials = redis::trials();
    trials.extend(redlock::trials());
    testbed::run_trials(AT_ONCE, trials)
}
