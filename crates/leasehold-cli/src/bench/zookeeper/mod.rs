//! `leasehold bench --url zk://…`: ours and the barest lock through the same
//! client, in turns over an ensemble that somebody else started; and other
//! libraries, if their programs are there.

mod peers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::{BareZookeeper, Mutex};

use crate::exit::Failure;

use super::report::{Goal, Report, median, micros, quantile};
use super::slice::{Slice, evenness};
use super::{Setting, contend, startup};

/// How many rounds the contenders take turns for.
const ROUNDS: u32 = 15;
const TASKS: usize = 64;
const SESSIONS: usize = 16;

/// Whether the URL is for this benchmark.
pub(crate) fn is_meant(url: &str) -> bool {
    url.starts_with("zk:")
}

pub(crate) async fn bench(
    setting: &Setting,
    scratch: &super::Scratch,
    report: &mut Report,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    if wanted("one task") {
        one_task(setting, report).await?;
    }
    if wanted("64 tasks, 64 names") {
        many_names(setting, report).await?;
    }
    if wanted("16 sessions, one name") {
        one_name(setting, report).await?;
    }
    for waiting in [100, 5000] {
        if wanted(&format!("{waiting} claims wait")) {
            crowd(setting, waiting, report).await?;
        }
    }
    if wanted("8 processes, one name") {
        contend::processes(setting, report).await?;
    }
    if wanted("run") {
        startup::startup(setting, scratch, report)?;
    }
    Ok(())
}

/// How long one contender of so many has its turn.
fn turn(setting: &Setting, contenders: u32) -> Duration {
    (setting.time / ROUNDS / contenders).max(Duration::from_millis(40))
}

async fn ours(mutexes: &Arc<[Mutex]>, time: Duration) -> Result<Slice, Failure> {
    let mutexes = mutexes.clone();
    Slice::of(mutexes.len(), time, move |task| {
        let mutex = mutexes[task].clone();
        async move { mutex.lock().await?.release().await }
    })
    .await
}

async fn floor(bare: &Arc<BareZookeeper>, tasks: usize, time: Duration) -> Result<Slice, Failure> {
    let bare = bare.clone();
    Slice::of(tasks, time, move |task| {
        let bare = bare.clone();
        async move { bare.cycle(&format!("leasehold-bench-{task}")).await }
    })
    .await
}

async fn one_task(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "one task";
    let session = leasehold::connect(&setting.url).await?;
    let bare = Arc::new(leasehold::bare_zookeeper(&setting.url).await?);
    let mutexes: Arc<[Mutex]> = [session.mutex("leasehold-bench/one")].into();
    let time = turn(setting, 2);
    let (mut mine, mut raw, mut ratios) = (vec![], vec![], vec![]);
    // A server in Java needs a while until it is compiled.
    floor(&bare, 1, setting.time / 3).await?;
    ours(&mutexes, setting.time / 3).await?;
    for _ in 0..ROUNDS {
        let mut ours = ours(&mutexes, time).await?;
        let mut bare = floor(&bare, 1, time).await?;
        ratios.push(ours.p50() / bare.p50());
        mine.append(&mut ours.samples);
        raw.append(&mut bare.samples);
    }
    session.close().await;
    let mut figure = |what, value, unit, goal| report.figure(part, what, value, unit, goal);
    figure("lock + unlock, p50", median(&mut mine), "us", Goal::None)?;
    let p99 = quantile(&mut mine, 0.99);
    figure("lock + unlock, p99", p99, "us", Goal::None)?;
    figure("raw floor, p50", median(&mut raw), "us", Goal::None)?;
    let ratio = median(&mut ratios);
    figure("p50 against the raw floor", ratio, "x", Goal::AtMost(1.2))?;
    let millis = setting.time.as_millis().to_string();
    let ours = median(&mut mine);
    for (name, p50) in peers::all(part, report, &["cycle", &setting.url], &[&millis]).await? {
        report.figure(part, &format!("{name}, p50"), p50, "us", Goal::None)?;
        let ratio = ours / p50;
        report.figure(
            part,
            &format!("ours against {name}"),
            ratio,
            "x",
            Goal::AtMost(1.0),
        )?;
    }
    Ok(())
}

async fn many_names(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "64 tasks, 64 names";
    let session = leasehold::connect(&setting.url).await?;
    let bare = Arc::new(leasehold::bare_zookeeper(&setting.url).await?);
    let mutex = |task| session.mutex(format!("leasehold-bench/many/{task}"));
    let mutexes: Arc<[Mutex]> = (0..TASKS).map(mutex).collect();
    let time = turn(setting, 2).max(Duration::from_millis(200));
    let (mut mine, mut raw, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let (ours, bare) = (
            ours(&mutexes, time).await?,
            floor(&bare, TASKS, time).await?,
        );
        ratios.push(ours.rate() / bare.rate());
        mine.push(ours.rate());
        raw.push(bare.rate());
    }
    session.close().await;
    let mut figure = |what, value, unit| report.figure(part, what, value, unit, Goal::None);
    figure("cycles, all tasks", median(&mut mine), "1/s")?;
    figure("raw floor", median(&mut raw), "1/s")?;
    figure("speed against the raw floor", median(&mut ratios), "x")
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
    let slice = ours(&mutexes.into(), setting.time).await?;
    for session in sessions {
        session.close().await;
    }
    let mut figure = |what, value, unit| report.figure(part, what, value, unit, Goal::None);
    figure("cycles, all sessions", slice.rate(), "1/s")?;
    figure("least served against most", evenness(&slice.grants), "x")?;
    let (sessions, millis) = (SESSIONS.to_string(), setting.time.as_millis().to_string());
    let rest = [sessions.as_str(), &millis];
    for (name, rate) in peers::all(part, report, &["contend", &setting.url], &rest).await? {
        report.figure(part, name, rate, "1/s", Goal::None)?;
    }
    Ok(())
}

/// A try and a wait that is given up, behind so many others.
async fn crowd(setting: &Setting, waiting: u32, report: &mut Report) -> Result<(), Failure> {
    let part = format!("{waiting} claims wait");
    let name = format!("leasehold-bench/crowd/{waiting}");
    let bare = leasehold::bare_zookeeper(&setting.url).await?;
    bare.crowd(&name, waiting).await?;
    let session = leasehold::connect(&setting.url).await?;
    let mutex = session.mutex(&name);
    let (start, mut tries) = (Instant::now(), Vec::new());
    while start.elapsed() < setting.time / 2 {
        let began = Instant::now();
        mutex.try_lock().await?;
        tries.push(micros(began.elapsed()));
    }
    let p50 = bare.enqueue_p50(&name, setting.time / 2).await?;
    session.close().await;
    bare.close().await?;
    report.figure(&part, "a try, p50", median(&mut tries), "us", Goal::None)?;
    report.figure(
        &part,
        "enqueue + withdraw, p50",
        micros(p50),
        "us",
        Goal::None,
    )
}
