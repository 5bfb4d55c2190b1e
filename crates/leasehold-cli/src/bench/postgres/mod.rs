//! `leasehold bench --url postgres://…`: ours and bare updates of one row through
//! the same client and pool, in turns on a server that somebody else started.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Mutex;
use leasehold::postgres::{BareAdvisory, BarePostgres};

use crate::exit::Failure;

use super::meter::Meter;
use super::report::{Goal, Report, median, quantile};
use super::session::{BareLock, Floor, ROUNDS, ours, turn};
use super::slice::{Slice, evenness};
use super::{Setting, contend, held, session, startup};

const TASKS: usize = 64;
const SESSIONS: usize = 16;

/// Whether the URL is for this benchmark.
pub(crate) fn is_meant(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

pub(crate) async fn bench(
    setting: &Setting,
    scratch: &super::Scratch,
    report: &mut Report,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    if session::is_meant(&setting.url) {
        let floor = Floor {
            connect: async |tasks| leasehold::bare_advisory(&setting.url, tasks).await,
            goal: Goal::AtMost(1.5),
        };
        return session::bench(setting, scratch, report, wanted, floor).await;
    }
    if wanted("one task") {
        one_task(setting, report).await?;
    }
    if wanted("64 tasks, 64 names") {
        many_names(setting, report).await?;
    }
    if wanted("16 sessions, one name") {
        one_name(setting, report).await?;
    }
    if wanted("8 processes, one name") {
        processes(setting, report).await?;
    }
    if wanted("10000 held") {
        held::held(setting, report).await?;
    }
    if wanted("run") {
        startup::startup(setting, scratch, report)?;
    }
    Ok(())
}

impl BareLock for BareAdvisory {
    async fn cycle(&self, task: usize, name: &str) -> leasehold::Result<()> {
        BareAdvisory::cycle(self, task, name).await
    }
}

fn name(task: usize) -> String {
    format!("leasehold-bench/many/{task}")
}

async fn bare(setting: &Setting, tasks: usize) -> Result<Arc<BarePostgres>, Failure> {
    let names: Vec<_> = (0..tasks).map(name).collect();
    let bare = leasehold::bare_postgres(&setting.url, &names).await?;
    Ok(Arc::new(bare))
}

async fn floor(bare: &Arc<BarePostgres>, tasks: usize, time: Duration) -> Result<Slice, Failure> {
    let bare = bare.clone();
    Slice::of(tasks, time, move |task| {
        let bare = bare.clone();
        async move { bare.cycle(&name(task)).await }
    })
    .await
}

async fn one_task(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "one task";
    let session = leasehold::connect(&setting.url).await?;
    let bare = bare(setting, 1).await?;
    let mutexes: Arc<[Mutex]> = [session.mutex("leasehold-bench/one")].into();
    let time = turn(setting);
    let (mut mine, mut raw, mut ratios) = (vec![], vec![], vec![]);
    let mut meters = ["ours", "raw floor"].map(|who| Meter::of(who, setting));
    for _ in 0..ROUNDS {
        let mut ours = meters[0].around(ours(&mutexes, time)).await?;
        let mut bare = meters[1].around(floor(&bare, 1, time)).await?;
        ratios.push(ours.p50() / bare.p50());
        mine.append(&mut ours.samples);
        raw.append(&mut bare.samples);
    }
    session.close().await;
    bare.close().await?;
    let mut figure = |what, value, unit, goal| report.figure(part, what, value, unit, goal);
    figure("lock + unlock, p50", median(&mut mine), "us", Goal::None)?;
    let p99 = quantile(&mut mine, 0.99);
    figure("lock + unlock, p99", p99, "us", Goal::None)?;
    figure("raw floor, p50", median(&mut raw), "us", Goal::None)?;
    let ratio = median(&mut ratios);
    figure("p50 against the raw floor", ratio, "x", Goal::AtMost(1.2))?;
    meters.iter().try_for_each(|meter| meter.tell(report, part))
}

async fn many_names(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "64 tasks, 64 names";
    let session = leasehold::connect(&setting.url).await?;
    let bare = bare(setting, TASKS).await?;
    let mutexes: Arc<[Mutex]> = (0..TASKS).map(|task| session.mutex(name(task))).collect();
    let time = turn(setting).max(Duration::from_millis(200));
    let (mut mine, mut raw, mut ratios) = (vec![], vec![], vec![]);
    let mut meters = ["ours", "raw floor"].map(|who| Meter::of(who, setting));
    for _ in 0..ROUNDS {
        let ours = meters[0].around(ours(&mutexes, time)).await?;
        let bare = meters[1].around(floor(&bare, TASKS, time)).await?;
        ratios.push(ours.rate() / bare.rate());
        mine.push(ours.rate());
        raw.push(bare.rate());
    }
    session.close().await;
    bare.close().await?;
    let mut figure = |what, value, unit, goal| report.figure(part, what, value, unit, goal);
    figure("cycles, all tasks", median(&mut mine), "1/s", Goal::None)?;
    figure("raw floor", median(&mut raw), "1/s", Goal::None)?;
    let ratio = median(&mut ratios);
    figure(
        "speed against the raw floor",
        ratio,
        "x",
        Goal::AtLeast(0.8),
    )?;
    meters.iter().try_for_each(|meter| meter.tell(report, part))
}

/// Processes that hand one lock around: that may take three commits, as long as those
/// take here and now.
async fn processes(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let bare = bare(setting, 1).await?;
    let commit = floor(&bare, 1, setting.time / 4).await?.p50() / 2.0 / 1e3;
    bare.close().await?;
    let part = "8 processes, one name";
    report.figure(part, "one commit, p50", commit, "ms", Goal::None)?;
    contend::processes_within(setting, report, 3.0 * commit).await
}

/// Sessions that hand one lock around: every hand-over goes through the store.
async fn one_name(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "16 sessions, one name";
    let (mut sessions, mut mutexes) = (Vec::new(), Vec::new());
    for _ in 0..SESSIONS {
        let session = leasehold::connect(&setting.url).await?;
        mutexes.push(session.mutex("leasehold-bench/hot"));
        sessions.push(session);
    }
    let bare = bare(setting, 1).await?;
    let slice = ours(&mutexes.into(), setting.time).await?;
    let mut floor = floor(&bare, 1, setting.time / 4).await?;
    for session in sessions {
        session.close().await;
    }
    bare.close().await?;
    // One after the other, a grant takes this long; a bare cycle has two commits.
    let grant = 1e6 / slice.rate();
    let mut figure = |what, value, unit, goal| report.figure(part, what, value, unit, goal);
    figure("cycles, all sessions", slice.rate(), "1/s", Goal::None)?;
    let commits = grant / (floor.p50() / 2.0);
    figure("grant to grant", commits, "commits", Goal::AtMost(3.0))?;
    let evenness = evenness(&slice.grants);
    figure(
        "least served against most",
        evenness,
        "x",
        Goal::AtLeast(0.8),
    )
}
