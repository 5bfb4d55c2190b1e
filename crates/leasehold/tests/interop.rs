//! One lock shared with other people's libraries: neither side gets in while
//! the other is in, and each gets in when the other has left, or was killed.
//!
//! `cargo xtask tools` builds their side, from the folder `interop`.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

mod proxy;
mod server;

#[path = "interop/foreign.rs"]
mod foreign;
#[path = "interop/ours.rs"]
mod ours;
#[path = "interop/quorum.rs"]
mod quorum;
#[path = "interop/theirs.rs"]
mod theirs;

use std::process::ExitCode;

use foreign::Client;
use leasehold::conformance::{is_peer, peer_main};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    if is_peer() {
        peer_main(None);
    }
    let mut arguments = Arguments::from_args();
    // Each trial is several processes already.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let mut trials = Vec::new();
    for client in Client::ALL {
        let lacks = client.lacks();
        for &(case, run) in theirs::CASES {
            let name = format!("theirs::{client}::{case}");
            trials.push(trial(name, lacks.clone(), move || block_on(run(client))));
        }
        for &(case, run) in ours::CASES {
            let name = format!("{}::{client}::{case}", client.layout());
            trials.push(trial(name, lacks.clone(), move || block_on(run(client))));
        }
    }
    for client in Client::OF_MANY {
        for (setting, nodes) in quorum::SETTINGS {
            for &(case, run) in quorum::CASES {
                let name = format!("{setting}::{client}::{case}");
                let run = move || block_on(run(client, setting, nodes));
                trials.push(trial(name, client.lacks(), run));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A machine that lacks a client skips it visibly, unless it is meant to have
/// everything.
fn trial(
    name: String,
    lacks: Option<String>,
    run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let Some(what) = lacks else {
        return Trial::test(name, run);
    };
    let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
    let kind = format!("{what} is missing");
    let failed = kind.clone();
    Trial::test(name, move || Err(failed.into()))
        .with_kind(kind)
        .with_ignored_flag(may_skip)
}

fn block_on(run: impl Future<Output = ()>) -> Result<(), Failed> {
    runtime().block_on(run);
    Ok(())
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.expect("threads start")
}
