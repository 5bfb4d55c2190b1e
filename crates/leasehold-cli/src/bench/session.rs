//! What PostgreSQL and MySQL have in common: turns of ours and of a floor; and
//! `mode=session`, beside the server's own locks through the same client.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Mutex;

use crate::exit::Failure;

use super::meter::Meter;
use super::report::{Goal, Report, median};
use super::slice::{Slice, evenness};
use super::{Setting, contend, startup};

/// How many rounds the contenders take turns for.
pub(super) const ROUNDS: u32 = 15;
const SESSIONS: usize = 8;

/// Locks of the server's own, each of so many tasks on a connection of its own.
pub(super) trait BareLock: Send + Sync + 'static {
    /// Waits for a lock, has it, and gives it back.
    fn cycle(&self, task: usize, name: &str) -> impl Future<Output = leasehold::Result<()>> + Send;
}

/// What ours is measured against.
pub(super) struct Floor<C> {
    /// Connects for so many tasks.
    pub(super) connect: C,
    /// How much longer ours may take.
    pub(super) goal: Goal,
}

/// Whether the URL is for this benchmark.
pub(super) fn is_meant(url: &str) -> bool {
    url.contains("mode=session")
}

/// How long one contender of two has its turn.
pub(super) fn turn(setting: &Setting) -> Duration {
    (setting.time / ROUNDS / 2).max(Duration::from_millis(40))
}

pub(super) async fn ours(mutexes: &Arc<[Mutex]>, time: Duration) -> Result<Slice, Failure> {
    let mutexes = mutexes.clone();
    Slice::of(mutexes.len(), time, move |task| {
        let mutex = mutexes[task].clone();
        async move { mutex.lock().await?.release().await }
    })
    .await
}

pub(super) async fn bench<B: BareLock>(
    setting: &Setting,
    scratch: &super::Scratch,
    report: &mut Report,
    wanted: impl Fn(&str) -> bool,
    floor: Floor<impl AsyncFn(usize) -> leasehold::Result<B>>,
) -> Result<(), Failure> {
    if wanted("one task") {
        one_task(setting, report, &floor).await?;
    }
    if wanted("8 sessions, one name") {
        one_name(setting, report, &floor).await?;
    }
    if wanted("8 processes, one name") {
        contend::processes(setting, report).await?;
    }
    if wanted("run") {
        startup::startup(setting, scratch, report)?;
    }
    Ok(())
}

async fn bare_cycles<B: BareLock>(
    bare: &Arc<B>,
    tasks: usize,
    time: Duration,
) -> Result<Slice, Failure> {
    let bare = bare.clone();
    Slice::of(tasks, time, move |task| {
        let bare = bare.clone();
        async move { bare.cycle(task, "leasehold-bench/bare").await }
    })
    .await
}

async fn one_task<B: BareLock>(
    setting: &Setting,
    report: &mut Report,
    floor: &Floor<impl AsyncFn(usize) -> leasehold::Result<B>>,
) -> Result<(), Failure> {
    let part = "one task";
    let session = leasehold::connect(&setting.url).await?;
    let bare = Arc::new((floor.connect)(1).await?);
    let mutexes: Arc<[Mutex]> = [session.mutex("leasehold-bench/one")].into();
    let time = turn(setting);
    let (mut mine, mut raw, mut ratios) = (vec![], vec![], vec![]);
    let mut meters = ["ours", "raw floor"].map(|who| Meter::of(who, setting));
    for _ in 0..ROUNDS {
        let mut ours = meters[0].around(ours(&mutexes, time)).await?;
        let mut bare = meters[1].around(bare_cycles(&bare, 1, time)).await?;
        ratios.push(ours.p50() / bare.p50());
        mine.append(&mut ours.samples);
        raw.append(&mut bare.samples);
    }
    session.close().await;
    let mut figure = |what, value, unit, goal| report.figure(part, what, value, unit, goal);
    figure("lock + unlock, p50", median(&mut mine), "us", Goal::None)?;
    figure("raw floor, p50", median(&mut raw), "us", Goal::None)?;
    let ratio = median(&mut ratios);
    figure("p50 against the raw floor", ratio, "x", floor.goal)?;
    meters.iter().try_for_each(|meter| meter.tell(report, part))
}

/// Sessions that hand one lock around.
async fn one_name<B: BareLock>(
    setting: &Setting,
    report: &mut Report,
    floor: &Floor<impl AsyncFn(usize) -> leasehold::Result<B>>,
) -> Result<(), Failure> {
    let part = "8 sessions, one name";
    let (mut sessions, mut mutexes) = (Vec::new(), Vec::new());
    for _ in 0..SESSIONS {
        let session = leasehold::connect(&setting.url).await?;
        mutexes.push(session.mutex("leasehold-bench/hot"));
        sessions.push(session);
    }
    let mutexes: Arc<[Mutex]> = mutexes.into();
    let bare = Arc::new((floor.connect)(SESSIONS).await?);
    let time = turn(setting).max(Duration::from_millis(200));
    let (mut mine, mut raw, mut ratios) = (vec![], vec![], vec![]);
    let mut meters = ["ours", "raw floor"].map(|who| Meter::of(who, setting));
    let mut grants = vec![0; SESSIONS];
    for _ in 0..ROUNDS {
        let ours = meters[0].around(ours(&mutexes, time)).await?;
        let bare = meters[1].around(bare_cycles(&bare, SESSIONS, time)).await?;
        ratios.push(bare.rate() / ours.rate());
        mine.push(1e6 / ours.rate());
        raw.push(1e6 / bare.rate());
        for (sum, count) in grants.iter_mut().zip(&ours.grants) {
            *sum += count;
        }
    }
    for session in sessions {
        session.close().await;
    }
    let mut figure = |what, value, unit, goal| report.figure(part, what, value, unit, goal);
    figure("grant to grant", median(&mut mine), "us", Goal::None)?;
    figure("raw floor", median(&mut raw), "us", Goal::None)?;
    let ratio = median(&mut ratios);
    figure("hand-over against the raw floor", ratio, "x", floor.goal)?;
    let evenness = evenness(&grants);
    figure(
        "least served against most",
        evenness,
        "x",
        Goal::AtLeast(0.8),
    )?;
    meters.iter().try_for_each(|meter| meter.tell(report, part))
}
