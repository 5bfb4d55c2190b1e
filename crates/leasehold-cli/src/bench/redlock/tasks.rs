//! One session in one process: one task, and many tasks on many names.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Mutex, Session};

use crate::bench::Setting;
use crate::bench::redis::slice::Slice;
use crate::bench::redis::tasks::slice;
use crate::bench::report::{Goal, Report, median, quantile};
use crate::exit::Failure;

use super::floor::Floor;
use super::nodes::Nodes;
use super::{ROUNDS, turn};

const TASKS: usize = 64;

/// Ours, with and without tokens.
pub(crate) struct Ours {
    sessions: Vec<Session>,
    pub(crate) plain: Arc<[Mutex]>,
    pub(crate) with_tokens: Arc<[Mutex]>,
}

impl Ours {
    pub(crate) async fn open(nodes: &Nodes, kind: &str, tasks: usize) -> Result<Self, Failure> {
        let (mut sessions, mut mutexes) = (Vec::new(), Vec::new());
        for tokens in ["off", "on"] {
            let url = nodes.url_with(&format!("tokens={tokens}"));
            let session = leasehold::connect(&url).await?;
            let name = |task| format!("leasehold-bench/{kind}/{tokens}/{task}");
            let made = (0..tasks).map(|task| session.mutex(name(task)));
            mutexes.push(made.collect::<Arc<[_]>>());
            sessions.push(session);
        }
        let with_tokens = mutexes.pop().unwrap_or_default();
        Ok(Self {
            sessions,
            plain: mutexes.pop().unwrap_or_default(),
            with_tokens,
        })
    }

    pub(crate) async fn close(self) {
        for session in self.sessions {
            session.close().await;
        }
    }
}

/// The others: rslock, if it is in this build.
struct Peer {
    #[cfg(feature = "peers")]
    rslock: super::rslock::Rslock,
}

impl Peer {
    #[cfg(feature = "peers")]
    fn find(_part: &str, nodes: &Nodes, _report: &mut Report) -> Result<Self, Failure> {
        let rslock = super::rslock::Rslock::open(nodes)?;
        Ok(Self { rslock })
    }

    #[cfg(not(feature = "peers"))]
    fn find(part: &str, _nodes: &Nodes, report: &mut Report) -> Result<Self, Failure> {
        report.note(part, "rslock is not in this build (feature `peers`)")?;
        Ok(Self {})
    }

    #[cfg(feature = "peers")]
    async fn slice(&self, tasks: usize, time: Duration) -> Result<Option<Slice>, Failure> {
        Ok(Some(self.rslock.slice(tasks, time).await?))
    }

    #[cfg(not(feature = "peers"))]
    #[expect(clippy::unused_async, reason = "the one with rslock waits")]
    async fn slice(&self, _tasks: usize, _time: Duration) -> Result<Option<Slice>, Failure> {
        Ok(None)
    }
}

pub(crate) async fn one_task(
    setting: &Setting,
    nodes: &Nodes,
    report: &mut Report,
) -> Result<(), Failure> {
    let part = "one task";
    let peer = Peer::find(part, nodes, report)?;
    let floor = Floor::open(nodes).await?;
    let ours = Ours::open(nodes, "one", 1).await?;
    let time = turn(setting, 4);
    let (mut plain, mut tokens, mut bare, mut theirs) = (vec![], vec![], vec![], vec![]);
    let (mut plain_ratios, mut token_ratios) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let mut raw = floor.slice(1, time).await?;
        let mut mine = slice(&ours.plain, time).await?;
        let mut fenced = slice(&ours.with_tokens, time).await?;
        plain_ratios.push(mine.p50() / raw.p50());
        token_ratios.push(fenced.p50() / raw.p50());
        plain.append(&mut mine.samples);
        tokens.append(&mut fenced.samples);
        bare.append(&mut raw.samples);
        if let Some(mut slice) = peer.slice(1, time).await? {
            theirs.append(&mut slice.samples);
        }
    }
    ours.close().await;
    let mut figure = |what, value, unit, goal| report.figure(part, what, value, unit, goal);
    figure("raw floor, p50", median(&mut bare), "us", Goal::None)?;
    let p50 = median(&mut plain);
    figure("tokens=off, p50", p50, "us", Goal::None)?;
    figure(
        "tokens=off, p99",
        quantile(&mut plain, 0.99),
        "us",
        Goal::None,
    )?;
    let ratio = median(&mut plain_ratios);
    figure(
        "tokens=off against the floor",
        ratio,
        "x",
        Goal::AtMost(0.65),
    )?;
    let fenced_p50 = median(&mut tokens);
    figure("with tokens, p50", fenced_p50, "us", Goal::None)?;
    figure(
        "with tokens, p99",
        quantile(&mut tokens, 0.99),
        "us",
        Goal::None,
    )?;
    let ratio = median(&mut token_ratios);
    figure(
        "with tokens against the floor",
        ratio,
        "x",
        Goal::AtMost(1.2),
    )?;
    if !theirs.is_empty() {
        let slower = p50.max(fenced_p50);
        figure(
            "rslock, p50",
            median(&mut theirs),
            "us",
            Goal::AtLeast(slower),
        )?;
    }
    Ok(())
}

pub(crate) async fn many_names(
    setting: &Setting,
    nodes: &Nodes,
    report: &mut Report,
) -> Result<(), Failure> {
    let part = "64 tasks, 64 names";
    let peer = Peer::find(part, nodes, report)?;
    let floor = Floor::open(nodes).await?;
    let ours = Ours::open(nodes, "many", TASKS).await?;
    let time = turn(setting, 4);
    let (mut plain, mut tokens, mut bare, mut theirs) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        bare.push(floor.slice(TASKS, time).await?.rate());
        plain.push(slice(&ours.plain, time).await?.rate());
        tokens.push(slice(&ours.with_tokens, time).await?.rate());
        theirs.extend(peer.slice(TASKS, time).await?.map(|slice| slice.rate()));
    }
    ours.close().await;
    let mut figure = |what, value, goal| report.figure(part, what, value, "1/s", goal);
    figure("raw floor", median(&mut bare), Goal::None)?;
    figure("tokens=off", median(&mut plain), Goal::None)?;
    figure("with tokens", median(&mut tokens), Goal::None)?;
    if !theirs.is_empty() {
        figure("rslock", median(&mut theirs), Goal::None)?;
    }
    Ok(())
}
