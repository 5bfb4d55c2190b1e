//! One process: one task, many tasks on many names, many tasks on one name.

use std::time::{Duration, Instant};

use leasehold::Session;

use crate::exit::Failure;

use super::floor::Floor;
use super::report::{Goal, Report, median, micros, quantile};
use super::{Scratch, Setting};

/// How many rounds ours and the floor take turns for.
const ROUNDS: u32 = 15;

fn floor(scratch: &Scratch) -> Floor {
    Floor::open(&scratch.path("floor.db")).expect("the temporary directory takes a database")
}

/// Runs the cycle again and again for the time; the time of each.
async fn timed<F: AsyncFnMut() -> leasehold::Result<()>>(
    time: Duration,
    mut cycle: F,
) -> Result<Vec<f64>, Failure> {
    let start = Instant::now();
    let mut samples = Vec::new();
    while start.elapsed() < time {
        let began = Instant::now();
        cycle().await?;
        samples.push(micros(began.elapsed()));
    }
    Ok(samples)
}

pub(crate) async fn one_task(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "one task";
    let scratch = Scratch::new();
    let mut floor = floor(&scratch);
    let session = leasehold::connect(&setting.url).await?;
    let mutex = session.mutex("leasehold-bench/one");
    let slice = setting.time / ROUNDS / 2;
    let (mut ours, mut bare, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let mut raw = timed(slice, async || {
            floor
                .cycle("leasehold-bench/one")
                .expect("the floor's database works");
            Ok(())
        })
        .await?;
        let mut mine = timed(slice, async || mutex.lock().await?.release().await).await?;
        ratios.push(median(&mut raw) / median(&mut mine));
        ours.append(&mut mine);
        bare.append(&mut raw);
    }
    report.figure(
        part,
        "lock + unlock, p50",
        median(&mut ours),
        "us",
        Goal::None,
    )?;
    report.figure(
        part,
        "lock + unlock, p99",
        quantile(&mut ours, 0.99),
        "us",
        Goal::None,
    )?;
    report.figure(part, "raw floor, p50", median(&mut bare), "us", Goal::None)?;
    report.figure(
        part,
        "speed against the raw floor",
        median(&mut ratios),
        "x",
        Goal::AtLeast(0.7),
    )?;
    session.close().await;
    Ok(())
}

pub(crate) async fn many_names(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "64 tasks, 64 names";
    let scratch = Scratch::new();
    let mut floor = floor(&scratch);
    let session = leasehold::connect(&setting.url).await?;
    let names: Vec<_> = (0..64)
        .map(|n| format!("leasehold-bench/many/{n}"))
        .collect();
    let slice = setting.time / ROUNDS / 2;
    let (mut ours, mut bare, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let mut turn = names.iter().cycle();
        let start = Instant::now();
        let raw = timed(slice, async || {
            let name = turn.next().map_or("", String::as_str);
            floor.cycle(name).expect("the floor's database works");
            Ok(())
        })
        .await?;
        let raw = per_second(raw.len(), start.elapsed());
        let mine = cycles_per_second(&session, &names, slice).await?;
        ratios.push(mine / raw);
        ours.push(mine);
        bare.push(raw);
    }
    report.figure(
        part,
        "cycles, all tasks",
        median(&mut ours),
        "1/s",
        Goal::None,
    )?;
    report.figure(
        part,
        "raw floor, one connection",
        median(&mut bare),
        "1/s",
        Goal::None,
    )?;
    report.figure(
        part,
        "speed against the raw floor",
        median(&mut ratios),
        "x",
        Goal::None,
    )?;
    session.close().await;
    Ok(())
}

pub(crate) async fn one_name(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "16 tasks, one name";
    let session = leasehold::connect(&setting.url).await?;
    let names = vec!["leasehold-bench/hot".to_owned(); 16];
    let cycles = cycles_per_second(&session, &names, setting.time / 2).await?;
    report.figure(part, "cycles, all tasks", cycles, "1/s", Goal::None)?;
    session.close().await;
    Ok(())
}

/// One task per name, each in a loop for the time.
async fn cycles_per_second(
    session: &Session,
    names: &[String],
    time: Duration,
) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for name in names {
        let mutex = session.mutex(name);
        tasks.spawn(async move {
            let mut cycles = 0_usize;
            while start.elapsed() < time {
                mutex.lock().await?.release().await?;
                cycles += 1;
            }
            Ok::<_, leasehold::Error>(cycles)
        });
    }
    let mut cycles = 0;
    while let Some(task) = tasks.join_next().await {
        cycles += task.expect("no task panics")?;
    }
    Ok(per_second(cycles, start.elapsed()))
}

#[expect(clippy::cast_precision_loss, reason = "a count of cycles")]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
