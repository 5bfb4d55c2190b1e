//! One session in one process: one task, and many tasks on many names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
/// Names that one task takes in turn, so that none is still being given back.
const IN_TURN: usize = 16;

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

/// One task that takes one name after the other and drops each guard at once: the
/// lock is given back in the background.
async fn dropping(mutexes: &Arc<[Mutex]>, time: Duration) -> Result<Slice, Failure> {
    let (ours, turn) = (mutexes.clone(), Arc::new(AtomicUsize::new(0)));
    let cycle = move |_| {
        let turn = turn.fetch_add(1, Ordering::Relaxed) % ours.len();
        let mutex = ours[turn].clone();
        async move {
            drop(mutex.lock().await?);
            Ok::<_, leasehold::Error>(())
        }
    };
    Slice::of(1, time, cycle).await
}

/// What one task of ours reached, by turns with the floor.
#[derive(Default)]
struct Against {
    samples: Vec<f64>,
    ratios: Vec<f64>,
}

impl Against {
    fn add(&mut self, mut slice: Slice, floor: f64) {
        self.ratios.push(slice.p50() / floor);
        self.samples.append(&mut slice.samples);
    }

    /// Its figures. Returns the median time.
    fn tell(
        mut self,
        report: &mut Report,
        part: &str,
        what: &str,
        goal: Goal,
    ) -> Result<f64, Failure> {
        let p50 = median(&mut self.samples);
        report.figure(part, &format!("{what}, p50"), p50, "us", Goal::None)?;
        let p99 = quantile(&mut self.samples, 0.99);
        report.figure(part, &format!("{what}, p99"), p99, "us", Goal::None)?;
        let ratio = median(&mut self.ratios);
        let what = format!("{what} against floor");
        report.figure(part, &what, ratio, "x", goal)?;
        Ok(p50)
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
    let in_turn = Ours::open(nodes, "in-turn", IN_TURN).await?;
    let time = turn(setting, 6);
    let (mut bare, mut theirs) = (vec![], vec![]);
    let [mut plain, mut tokens, mut plain_dropped, mut tokens_dropped]: [Against; 4] =
        Default::default();
    for _ in 0..ROUNDS {
        let mut raw = floor.slice(1, time).await?;
        let p50 = raw.p50();
        plain.add(slice(&ours.plain, time).await?, p50);
        tokens.add(slice(&ours.with_tokens, time).await?, p50);
        plain_dropped.add(dropping(&in_turn.plain, time).await?, p50);
        tokens_dropped.add(dropping(&in_turn.with_tokens, time).await?, p50);
        bare.append(&mut raw.samples);
        if let Some(mut slice) = peer.slice(1, time).await? {
            theirs.append(&mut slice.samples);
        }
    }
    ours.close().await;
    in_turn.close().await;
    let p50 = median(&mut bare);
    report.figure(part, "raw floor, p50", p50, "us", Goal::None)?;
    report.note(
        part,
        "drop: lock, given back in the background, as the goals mean it; release: lock, and a majority is waited for once more",
    )?;
    let goals = (Goal::AtMost(0.65), Goal::AtMost(1.2));
    plain_dropped.tell(report, part, "tokens=off, drop", goals.0)?;
    tokens_dropped.tell(report, part, "with tokens, drop", goals.1)?;
    let plain = plain.tell(report, part, "tokens=off, release", Goal::None)?;
    let tokens = tokens.tell(report, part, "with tokens, release", Goal::None)?;
    if !theirs.is_empty() {
        let p50 = median(&mut theirs);
        report.figure(part, "rslock, p50", p50, "us", Goal::AtLeast(plain))?;
        report.figure(part, "rslock, p50", p50, "us", Goal::AtLeast(tokens))?;
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
