//! Ten thousand held locks: what keeping them alive costs, here and in the
//! server.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bench::report::{Goal, Report};
use crate::bench::startup::ourselves;
use crate::bench::worker::{cpu_time, take_many};
use crate::exit::Failure;
use crate::print;

use super::Bench;
use super::handover::with_option;
use super::server::Server;

const LOCKS: usize = 10_000;
/// How many locks one request renews.
const BATCH: usize = 500;
/// The ttl that sessions have if nobody says otherwise.
const TTL: Duration = Duration::from_secs(10);
/// How often the server's counters are read; a renewal round is shorter.
const SAMPLE: Duration = Duration::from_millis(250);

/// What the process that holds the locks found out.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    still_held: usize,
    requests_per_round: Vec<u64>,
    core_percent: f64,
    server_percent: f64,
    bytes_per_lock: f64,
}

pub(crate) async fn held(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let part = "10000 held locks";
    // A process of its own, so that nobody else's time and memory is counted.
    let output = Command::new(ourselves())
        .arg("bench")
        .arg(format!("--worker=keep:{LOCKS}"))
        .arg(format!("--for={}ms", bench.setting.time.as_millis()))
        .env("LEASEHOLD_URL", &bench.setting.url)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("this program can be started");
    let Ok(kept) = serde_json::from_slice::<Kept>(&output.stdout) else {
        return report.figure(part, "still held", 0.0, "locks", Goal::AtLeast(10_000.0));
    };
    let most = kept.requests_per_round.iter().max().copied().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "counts of locks and requests")]
    let (still_held, most, batches) = (
        kept.still_held as f64,
        most as f64,
        LOCKS.div_ceil(BATCH) as f64,
    );
    report.figure(
        part,
        "still held",
        still_held,
        "locks",
        Goal::AtLeast(10_000.0),
    )?;
    let rounds = &kept.requests_per_round;
    report.note(
        part,
        &format!("counted: EVALSHA in each renewal round at ttl 10 s: {rounds:?}"),
    )?;
    report.figure(
        part,
        "requests per renewal round",
        most,
        "",
        Goal::AtMost(batches),
    )?;
    let (here, there) = (kept.core_percent, kept.server_percent);
    report.figure(
        part,
        "renewal here, ttl 10 s",
        here,
        "% of core",
        Goal::AtMost(2.0),
    )?;
    report.figure(
        part,
        "renewal in the server",
        there,
        "% of core",
        Goal::AtMost(2.0),
    )?;
    let bytes = kept.bytes_per_lock;
    report.figure(
        part,
        "resident memory per lock",
        bytes,
        "bytes",
        Goal::AtMost(1024.0),
    )
}

/// The process that holds the locks.
pub(crate) async fn keep(url: &str, time: Duration, locks: usize) -> Result<(), Failure> {
    let server = Server::open(url).await?;
    let session = leasehold::connect(&with_option(url, "ttl=10s")).await?;
    let (guards, bytes_per_lock) = take_many(&session, locks).await?;
    let time = time.max(TTL);
    let (start, cpu, counts) = (Instant::now(), cpu_time(), server.counts().await?);
    let (mut last, mut rises) = (counts, Vec::new());
    while start.elapsed() < time {
        tokio::time::sleep(SAMPLE).await;
        let now = server.counts().await?;
        rises.push(now.since(last).evalsha);
        last = now;
    }
    let percent = |used: Duration| 100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64();
    print::json_line(&Kept {
        still_held: guards.iter().filter(|guard| guard.check().is_ok()).count(),
        requests_per_round: rounds(&rises),
        core_percent: percent(cpu_time().saturating_sub(cpu)),
        server_percent: percent(last.since(counts).cpu),
        bytes_per_lock,
    })?;
    drop(guards);
    session.close().await;
    Ok(())
}

/// Requests in each renewal round: what lies between two quiet samples. The
/// first and the last may be cut off, so they must be quiet to count.
fn rounds(rises: &[u64]) -> Vec<u64> {
    let whole = rises.split(|rise| *rise == 0);
    let mut sums: Vec<u64> = whole.map(|round| round.iter().sum()).collect();
    if rises.last().is_some_and(|rise| *rise > 0) {
        sums.pop();
    }
    if rises.first().is_some_and(|rise| *rise > 0) && !sums.is_empty() {
        sums.remove(0);
    }
    sums.retain(|sum| *sum > 0);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_told_apart_by_quiet_samples_and_cut_ones_left_out() {
        assert_eq!(rounds(&[0, 20, 0, 0, 12, 8, 0]), [20, 20]);
        assert_eq!(rounds(&[7, 0, 20, 0, 3]), [20]);
        assert!(rounds(&[20]).is_empty());
        assert!(rounds(&[]).is_empty());
    }
}
