//! The holder is cut off from its store, and comes back. What it works on it
//! can still reach.

use std::net::SocketAddr;

use super::two::{HEADS, Two};
use super::{Error, Report, Stage};
use crate::proxy::{Proxy, Weather};
use crate::worker::Strategy;
use testbed::redis::RedisServer;

const TTL: u64 = 800;

pub(super) fn tell(stage: &Stage<'_>) -> Result<Report, Error> {
    let server = RedisServer::start(stage.folder, &[]);
    let mut report = Report::default();
    report.table.heads = HEADS.map(str::to_owned).to_vec();
    let ways = [
        (
            "SET NX PX, released by its owner only",
            Strategy::NoRenewal,
            true,
        ),
        (
            "leasehold, told before the next one holds",
            Strategy::Unfenced,
            false,
        ),
        ("leasehold, and a fence", Strategy::Fenced, false),
    ];
    for (number, (title, strategy, should_be_bad)) in ways.into_iter().enumerate() {
        (stage.progress)(title);
        let two = Two::new(strategy, stage.folder, number)?;
        let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], server.port())))?;
        let url = |port: u16| match strategy {
            Strategy::NoRenewal => format!("redis://127.0.0.1:{port}"),
            _ => format!("redis://127.0.0.1:{port}?ttl={TTL}ms"),
        };
        let first = two.first(&url(proxy.port()), TTL)?;
        two.recorder.breaks("network cut", "w1");
        proxy.set(Weather::Cut);
        let second = two.second(&url(server.port()), true)?;
        proxy.set(Weather::Fair);
        two.recorder.heals("network cut", "w1");
        two.finish(first, second)?;
        two.judge(title, should_be_bad, &mut report);
    }
    Ok(report)
}
