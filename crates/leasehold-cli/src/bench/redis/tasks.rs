//! One session in one process: one task, many tasks on many names, many tasks on
//! one name.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Mutex, Session};

use crate::bench::report::{Goal, Report, median, quantile};
use crate::bench::worker::cpu_time;
use crate::exit::Failure;

use super::floor::Floor;
use super::peers::{NAMES, Names, Peers, Reached};
use super::slice::Slice;
use super::{Bench, ROUNDS};

const TASKS: usize = 64;

pub(crate) async fn one_task(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let part = "one task";
    let peers = Peers::find(part, &bench.server, report)?;
    let floor = Floor::open(&bench.server, 1).await?;
    let session = leasehold::connect(&bench.setting.url).await?;
    let mutexes = mutexes(&session, "one", 1);
    let time = bench.turn(3);
    let (mut ours, mut bare, mut ratios) = (vec![], vec![], vec![]);
    let mut theirs = [const { Vec::new() }; NAMES.len()];
    for _ in 0..ROUNDS {
        let mut mine = slice(&mutexes, time).await?;
        let mut raw = floor.slice(1, time).await?;
        ratios.push(mine.p50() / raw.p50());
        ours.append(&mut mine.samples);
        bare.append(&mut raw.samples);
        let reached = peers.slices(Names::OneEach, 1, time / 2).await?;
        gather(&mut theirs, reached, |reached| reached.p50);
    }
    let p50 = median(&mut ours);
    report.figure(part, "lock + unlock, p50", p50, "us", Goal::None)?;
    let p99 = quantile(&mut ours, 0.99);
    report.figure(part, "lock + unlock, p99", p99, "us", Goal::None)?;
    report.figure(part, "raw floor, p50", median(&mut bare), "us", Goal::None)?;
    let ratio = median(&mut ratios);
    report.figure(
        part,
        "p50 against the raw floor",
        ratio,
        "x",
        Goal::AtMost(1.25),
    )?;
    for (name, mut theirs) in NAMES.into_iter().zip(theirs) {
        if !theirs.is_empty() {
            let their_p50 = median(&mut theirs);
            report.figure(
                part,
                &format!("{name}, p50"),
                their_p50,
                "us",
                Goal::AtLeast(p50),
            )?;
        }
    }
    session.close().await;
    Ok(())
}

pub(crate) async fn many_names(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let part = "64 tasks, 64 names";
    let peers = Peers::find(part, &bench.server, report)?;
    let floor = Floor::open(&bench.server, 1).await?;
    let floor_each = Floor::open(&bench.server, TASKS).await?;
    let session = leasehold::connect(&bench.setting.url).await?;
    let mutexes = mutexes(&session, "many", TASKS);
    let time = bench.turn(4);
    let (mut ours, mut bare, mut each, mut ratios) = (vec![], vec![], vec![], vec![]);
    let mut theirs = [const { Vec::new() }; NAMES.len()];
    let (mut our_cost, mut bare_cost) = (Cost::default(), Cost::default());
    for _ in 0..ROUNDS {
        let mine = costing(bench, &mut our_cost, slice(&mutexes, time)).await?;
        let raw = costing(bench, &mut bare_cost, floor.slice(TASKS, time)).await?;
        ratios.push(mine.rate() / raw.rate());
        ours.push(mine.rate());
        bare.push(raw.rate());
        each.push(floor_each.slice(TASKS, time).await?.rate());
        let reached = peers.slices(Names::OneEach, TASKS, time / 2).await?;
        gather(&mut theirs, reached, |reached| reached.rate);
    }
    let rate = median(&mut ours);
    report.figure(part, "cycles, all tasks", rate, "1/s", Goal::None)?;
    let shared = median(&mut bare);
    report.figure(part, "raw floor, one connection", shared, "1/s", Goal::None)?;
    let each = median(&mut each);
    report.figure(
        part,
        "raw floor, connection per task",
        each,
        "1/s",
        Goal::None,
    )?;
    let ratio = median(&mut ratios);
    report.figure(
        part,
        "speed against the raw floor",
        ratio,
        "x",
        Goal::AtLeast(0.8),
    )?;
    for (who, cost) in [("ours", our_cost), ("raw floor", bare_cost)] {
        let (client, server) = cost.per_cycle();
        report.figure(
            part,
            &format!("{who}: CPU here, per cycle"),
            client,
            "us",
            Goal::None,
        )?;
        report.figure(
            part,
            &format!("{who}: CPU of the server"),
            server,
            "us",
            Goal::None,
        )?;
    }
    for (name, mut theirs) in NAMES.into_iter().zip(theirs) {
        if !theirs.is_empty() {
            let theirs = median(&mut theirs);
            report.figure(part, name, theirs, "1/s", Goal::AtMost(rate))?;
        }
    }
    session.close().await;
    Ok(())
}

pub(crate) async fn one_name(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let part = "64 tasks, one name";
    // rslock pauses for up to 200 ms between tries: few rounds, and long ones.
    let rounds = 3;
    let time = (bench.setting.time / rounds / 2).max(bench.turn(1));
    let peers = Peers::rslock_only(part, &bench.server, report)?;
    let session = leasehold::connect(&bench.setting.url).await?;
    let mutexes: Arc<[_]> = vec![session.mutex("leasehold-bench/hot"); TASKS].into();
    let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..rounds {
        let mine = slice(&mutexes, time).await?.rate();
        ours.push(mine);
        let [rslock, _] = peers.slices(Names::OneForAll, TASKS, time).await?;
        if let Some(Reached { rate, .. }) = rslock {
            ratios.push(mine / rate);
            theirs.push(rate);
        }
    }
    report.figure(
        part,
        "cycles, all tasks",
        median(&mut ours),
        "1/s",
        Goal::None,
    )?;
    if !theirs.is_empty() {
        report.figure(part, "rslock", median(&mut theirs), "1/s", Goal::None)?;
        let ratio = median(&mut ratios);
        report.figure(
            part,
            "speed against rslock",
            ratio,
            "x",
            Goal::AtLeast(10.0),
        )?;
    }
    session.close().await;
    Ok(())
}

fn mutexes(session: &Session, kind: &str, count: usize) -> Arc<[Mutex]> {
    (0..count)
        .map(|n| session.mutex(format!("leasehold-bench/{kind}/{n}")))
        .collect()
}

/// A task per mutex.
pub(crate) async fn slice(mutexes: &Arc<[Mutex]>, time: Duration) -> Result<Slice, Failure> {
    let ours = mutexes.clone();
    let cycle = move |task: usize| {
        let mutex = ours[task].clone();
        async move { mutex.lock().await?.release().await }
    };
    Slice::of(mutexes.len(), time, cycle).await
}

fn gather<const N: usize>(
    theirs: &mut [Vec<f64>; N],
    reached: [Option<Reached>; N],
    figure: impl Fn(Reached) -> f64,
) {
    for (theirs, reached) in theirs.iter_mut().zip(reached) {
        theirs.extend(reached.map(&figure));
    }
}

/// What cycles cost on either side.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    cycles: f64,
    client: Duration,
    server: Duration,
}

impl Cost {
    /// Microseconds of a core: here, and in the server.
    fn per_cycle(self) -> (f64, f64) {
        let of = |time: Duration| time.as_secs_f64() * 1e6 / self.cycles.max(1.0);
        (of(self.client), of(self.server))
    }
}

async fn costing(
    bench: &Bench<'_>,
    cost: &mut Cost,
    slice: impl Future<Output = Result<Slice, Failure>>,
) -> Result<Slice, Failure> {
    let (server, client) = (bench.server.counts().await?, cpu_time());
    let slice = slice.await?;
    cost.client += cpu_time().saturating_sub(client);
    cost.server += bench.server.counts().await?.since(server).cpu;
    cost.cycles += slice.cycles();
    Ok(slice)
}
