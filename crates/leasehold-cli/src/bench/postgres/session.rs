//! `leasehold bench --url postgres://…?mode=session`: ours and bare advisory
//! locks through the same client, in turns.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Mutex;
use leasehold::postgres::BareAdvisory;

use crate::exit::Failure;

use super::super::report::{Goal, Report, median};
use super::super::slice::{Slice, evenness};
use super::super::{Setting, contend, startup};
use super::{ROUNDS, ours, turn};

const SESSIONS: usize = 8;

/// Whether the URL is for this benchmark.
pub(super) fn is_meant(url: &str) -> bool {
    url.contains("mode=session")
}

pub(super) async fn bench(
    setting: &Setting,
    scratch: &super::super::Scratch,
    report: &mut Report,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    if wanted("one task") {
        one_task(setting, report).await?;
    }
    if wanted("8 sessions, one name") {
        one_name(setting, report).await?;
    }
    if wanted("8 processes, one name") {
        contend::processes(setting, report).await?;
    }
    if wanted("run") {
        startup::startup(setting, scratch, report)?;
    }
    Ok(())
}

async fn floor(bare: &Arc<BareAdvisory>, tasks: usize, time: Duration) -> Result<Slice, Failure> {
    let bare = bare.clone();
    Slice::of(tasks, time, move |task| {
        let bare = bare.clone();
        async move { bare.cycle(task, "leasehold-bench/bare").await }
    })
    .await
}

async fn one_task(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "one task";
    let session = leasehold::connect(&setting.url).await?;
    let bare = Arc::new(leasehold::bare_advisory(&setting.url, 1).await?);
    let mutexes: Arc<[Mutex]> = [session.mutex("leasehold-bench/one")].into();
    let time = turn(setting);
    let (mut mine, mut raw, mut ratios) = (vec![], vec![], vec![]);
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
    figure("raw floor, p50", median(&mut raw), "us", Goal::None)?;
    let ratio = median(&mut ratios);
    figure("p50 against the raw floor", ratio, "x", Goal::AtMost(1.5))
}

/// Sessions that hand one lock around.
async fn one_name(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "8 sessions, one name";
    let (mut sessions, mut mutexes) = (Vec::new(), Vec::new());
    for _ in 0..SESSIONS {
        let session = leasehold::connect(&setting.url).await?;
        mutexes.push(session.mutex("leasehold-bench/hot"));
        sessions.push(session);
    }
    let mutexes: Arc<[Mutex]> = mutexes.into();
    let bare = Arc::new(leasehold::bare_advisory(&setting.url, SESSIONS).await?);
    let time = turn(setting).max(Duration::from_millis(200));
    let (mut mine, mut raw, mut ratios) = (vec![], vec![], vec![]);
    let mut grants = vec![0; SESSIONS];
    for _ in 0..ROUNDS {
        let ours = ours(&mutexes, time).await?;
        let bare = floor(&bare, SESSIONS, time).await?;
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
    figure(
        "hand-over against the raw floor",
        ratio,
        "x",
        Goal::AtMost(1.5),
    )?;
    let evenness = evenness(&grants);
    figure(
        "least served against most",
        evenness,
        "x",
        Goal::AtLeast(0.8),
    )
}
