//! One lock shared with other people's libraries: neither side gets in while
//! the other is in, and each gets in when the other has left, or was killed.
//!
//! `cargo xtask tools` builds their side, from the folder `interop`.

mod foreign;
mod ours;
mod quorum;
mod theirs;

use foreign::Client;
use libtest_mimic::Trial;
use testbed::{block_on, need, trial};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for client in Client::ALL {
        for &(case, run) in theirs::CASES {
            let name = format!("interop::theirs::{client}::{case}");
            trials.push(trial(name, move || {
                need(client.lacks());
                block_on(run(client));
            }));
        }
        for &(case, run) in ours::CASES {
            let name = format!("interop::{}::{client}::{case}", client.layout());
            trials.push(trial(name, move || {
                need(client.lacks());
                block_on(run(client));
            }));
        }
    }
    for client in Client::OF_MANY {
        for (setting, nodes) in quorum::SETTINGS {
            for &(case, run) in quorum::CASES {
                let name = format!("interop::{setting}::{client}::{case}");
                trials.push(trial(name, move || {
                    need(client.lacks());
                    block_on(run(client, setting, nodes));
                }));
            }
        }
    }
    trials
}
