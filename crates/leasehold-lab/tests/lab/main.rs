//! The lab as a whole: its stories, a few cells of its matrix, its sabotages, and what is left
//! of it when it ends.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

mod browser;
mod matrix;
mod orphan;
mod sabotage;
mod stories;

use std::process::ExitCode;

use leasehold_lab::keeper::run_program_kept;
use leasehold_lab::story::Error;
use libtest_mimic::Trial;

/// What a failure leaves to look at.
const PAGES: &str = env!("CARGO_TARGET_TMPDIR");

/// Trials at the same time. Each starts servers and processes of its own, which mostly wait.
const AT_ONCE: usize = 3;

type Outcome = Result<(), Error>;

fn main() -> ExitCode {
    match run_program_kept(env!("CARGO_BIN_EXE_leasehold-lab")) {
        Ok(None) => trials(),
        Ok(Some(code)) => code,
        Err(error) => panic!("{error}"),
    }
}

/// Below a keeper, so that nothing is left of it however it ends.
fn trials() -> ExitCode {
    let mut trials = stories::trials();
    trials.extend(matrix::trials());
    trials.extend(sabotage::trials());
    testbed::run_trials(AT_ONCE, trials)
}

fn trial(name: impl Into<String>, run: impl FnOnce() -> Outcome + Send + 'static) -> Trial {
    testbed::trial(name, || {
        if let Err(error) = run() {
            panic!("{error}");
        }
    })
}
