//! The primary dies before it has told its replicas of the lock.

use super::two::{HEADS, Two};
use super::{Error, Report, Stage};
use crate::worker::Strategy;
use testbed::etcd::{Etcd, Version};
use testbed::redis::Sentinel;

const TTL: u64 = 20_000;

pub(super) fn tell(stage: &Stage<'_>) -> Result<Report, Error> {
    let mut report = Report::default();
    report.table.heads = HEADS.map(str::to_owned).to_vec();
    let ways = [
        (
            "SET NX PX on a Redis with replicas",
            Strategy::NoRenewal,
            true,
        ),
        (
            "leasehold on the same, without a fence",
            Strategy::Unfenced,
            true,
        ),
        (
            "leasehold on the same, and a fence",
            Strategy::Fenced,
            false,
        ),
    ];
    for (number, (title, strategy, should_be_bad)) in ways.into_iter().enumerate() {
        (stage.progress)(title);
        let folder = stage.folder.join(format!("sentinel-{number}"));
        std::fs::create_dir_all(&folder)?;
        let two = Two::new(strategy, &folder, number)?;
        on_redis(&two, &folder, (strategy, should_be_bad))?;
        two.judge(title, should_be_bad, &mut report);
    }
    let title = "leasehold on etcd, without a fence";
    (stage.progress)(title);
    let folder = stage.folder.join("etcd");
    std::fs::create_dir_all(&folder)?;
    let two = Two::new(Strategy::Unfenced, &folder, ways.len())?;
    on_etcd(&two, &folder)?;
    two.judge(title, false, &mut report);
    Ok(report)
}

fn on_redis(
    two: &Two,
    folder: &std::path::Path,
    (strategy, gets_in): (Strategy, bool),
) -> Result<(), Error> {
    let mut sentinel = Sentinel::start(folder, &[]);
    let primary = sentinel.primary_port();
    // Who locks by hand goes to the primary; the library asks the sentinels.
    let url = |port: u16, sentinel: &Sentinel| match strategy {
        Strategy::NoRenewal => format!("redis://127.0.0.1:{port}"),
        _ => format!("{}?ttl={TTL}ms", sentinel.url()),
    };
    let others = |sentinel: &Sentinel| -> Vec<usize> {
        let servers = sentinel.servers().iter().enumerate();
        let replicas = servers.filter(|(_, server)| server.port() != primary);
        replicas.map(|(number, _)| number).collect()
    };
    for number in others(&sentinel) {
        sentinel.servers()[number].stop();
    }
    // What is in the socket of a replica would reach it when it goes on.
    sentinel.primary().tell("CLIENT KILL TYPE replica");
    let here = url(primary, &sentinel);
    // One of the library that does not stand still is told of its loss.
    let first = match strategy {
        Strategy::NoRenewal => two.first(&here, TTL)?,
        _ => two.first_at_write(&here, TTL)?,
    };
    two.recorder.note("the primary dies");
    let replicas = others(&sentinel);
    sentinel.kill_primary();
    for number in replicas {
        sentinel.servers()[number].resume();
    }
    let next = sentinel.wait_for_new_primary();
    two.recorder.note("a replica takes over");
    let second = two.second(&url(next, &sentinel), gets_in)?;
    two.finish(first, second)
}

fn on_etcd(two: &Two, folder: &std::path::Path) -> Result<(), Error> {
    let mut etcd = Etcd::start_three(folder, Version::System);
    let url = format!("{}?ttl={TTL}ms", etcd.url());
    let first = two.first(&url, TTL)?;
    two.recorder.note("the leader dies");
    let leader = etcd.leader();
    etcd.members[leader].kill();
    etcd.wait_until_writable();
    two.recorder.note("another leads");
    let second = two.second(&url, false)?;
    two.finish(first, second)
}
