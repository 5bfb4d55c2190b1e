//! Redlock where its theory says that it breaks: one node of five forgets what
//! it has granted, by a clock that jumps or by a restart without its data.

use std::net::SocketAddr;

use super::two::{HEADS, Two};
use super::{Error, Report, Stage};
use crate::proxy::{Proxy, Weather};
use crate::worker::Strategy;
use testbed::redis::Fleet;

const NODES: usize = 5;
/// The one that both majorities have in common.
const COMMON: usize = 2;
const TTL: u64 = 20_000;

pub(super) fn clock(stage: &Stage<'_>) -> Result<Report, Error> {
    tell(stage, "clock", |fleet| {
        let ahead = i64::try_from(TTL + 1_000).unwrap_or(i64::MAX);
        fleet.servers[COMMON].set_ahead(ahead);
        "the clock of the third node jumps ahead"
    })
}

pub(super) fn amnesia(stage: &Stage<'_>) -> Result<Report, Error> {
    tell(stage, "amnesia", |fleet| {
        fleet.servers[COMMON].restart();
        "the third node restarts without its data"
    })
}

fn tell(
    stage: &Stage<'_>,
    story: &str,
    accident: impl Fn(&mut Fleet) -> &'static str,
) -> Result<Report, Error> {
    let mut report = Report::default();
    report.table.heads = HEADS.map(str::to_owned).to_vec();
    let ways = [
        (
            "Redlock by the book, no tokens",
            "off",
            Strategy::Unfenced,
            true,
        ),
        (
            "Redlock with tokens, and a fence",
            "on",
            Strategy::Fenced,
            false,
        ),
    ];
    for (number, (title, tokens, strategy, should_be_bad)) in ways.into_iter().enumerate() {
        (stage.progress)(title);
        let folder = stage.folder.join(format!("{story}-{number}"));
        std::fs::create_dir_all(&folder)?;
        let mut fleet = match story {
            "clock" => Fleet::start_with_clocks(&folder, NODES),
            _ => Fleet::start(&folder, NODES),
        };
        let two = Two::new(strategy, &folder, number)?;
        // The first one reaches 1, 2, 3 only, the second one 3, 4, 5.
        let (first, first_url) = network(&fleet, tokens)?;
        let (second, second_url) = network(&fleet, tokens)?;
        // The nodes have met before the network breaks.
        found(&first_url)?;
        shut(&first, &[3, 4]);
        shut(&second, &[0, 1]);
        let one = two.first(&first_url, TTL)?;
        let what = accident(&mut fleet);
        two.recorder.note(what);
        let other = two.second(&second_url, should_be_bad)?;
        two.finish(one, other)?;
        two.judge(title, should_be_bad, &mut report);
    }
    Ok(report)
}

/// A network of one worker to all nodes.
fn network(fleet: &Fleet, tokens: &str) -> Result<(Vec<Proxy>, String), Error> {
    let mut proxies = Vec::new();
    for server in &fleet.servers {
        proxies.push(Proxy::start(SocketAddr::from((
            [127, 0, 0, 1],
            server.port(),
        )))?);
    }
    let places = proxies
        .iter()
        .map(|proxy| format!("127.0.0.1:{}", proxy.port()));
    let places = places.collect::<Vec<_>>().join(",");
    let tokens = match tokens {
        "off" => "&tokens=off",
        _ => "",
    };
    Ok((proxies, format!("redlock://{places}?ttl={TTL}ms{tokens}")))
}

fn shut(proxies: &[Proxy], which: &[usize]) {
    for &number in which {
        proxies[number].set(Weather::Cut);
    }
}

/// Opens a session once, so that the nodes know each other.
fn found(url: &str) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let session = leasehold::connect(url).await?;
        session.close().await;
        Ok(())
    })
}
