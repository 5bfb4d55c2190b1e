//! One node of five hangs: it takes connections and answers nothing. Nobody may
//! notice.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::bench::redis::tasks::slice;
use crate::bench::report::{Goal, Report, median};
use crate::bench::{Scratch, Setting};
use crate::exit::{self, Failure};

use super::nodes::Nodes;
use super::tasks::Ours;

/// Few, and long: what a node that hangs leaves behind must have time to show.
const ROUNDS: u32 = 4;

pub(crate) async fn hung(
    setting: &Setting,
    nodes: Nodes,
    scratch: &Scratch,
    report: &mut Report,
) -> Result<(), Failure> {
    let part = "one of five hangs";
    let nodes = match nodes.are_ours() {
        true => nodes,
        false => match Nodes::start(scratch) {
            Ok(nodes) => nodes,
            Err(failure) => return report.note(part, &failure.message),
        },
    };
    let note = "on five servers of its own, one of which is stopped and goes on, by turns";
    report.note(part, note)?;
    let ours = Ours::open(&nodes, "hung", 1).await?;
    let time = (setting.time / ROUNDS / 4).max(Duration::from_millis(100));
    for (what, mutexes) in [
        ("tokens=off", &ours.plain),
        ("with tokens", &ours.with_tokens),
    ] {
        let (mut ratios, mut hanging) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut whole = slice(mutexes, time).await?;
            nodes.signal_first(Signal::SIGSTOP);
            let hung = slice(mutexes, time).await;
            nodes.signal_first(Signal::SIGCONT);
            until_back(&nodes).await?;
            let mut hung = hung?;
            ratios.push(hung.p50() / whole.p50());
            hanging.append(&mut hung.samples);
        }
        let p50 = median(&mut hanging);
        report.figure(part, &format!("{what}, p50"), p50, "us", Goal::None)?;
        let ratio = median(&mut ratios);
        let what = format!("{what} against none hung");
        report.figure(part, &what, ratio, "x", Goal::AtMost(1.2))?;
    }
    ours.close().await;
    Ok(())
}

/// Waits until all nodes answer and have done what was sent to them meanwhile.
async fn until_back(nodes: &Nodes) -> Result<(), Failure> {
    let begun = Instant::now();
    for server in nodes.servers().await? {
        while server.ping(3, Duration::from_millis(5)).await.is_err() {
            if begun.elapsed() > Duration::from_secs(10) {
                let why = "a node that was stopped does not go on";
                return Err(Failure::new(exit::UNAVAILABLE, why));
            }
        }
    }
    Ok(())
}
