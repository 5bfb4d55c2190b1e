//! Several processes on one name: how long a hand-over takes and how evenly the
//! lock goes round.

use std::process::{Command, Stdio};

use crate::exit::Failure;

use super::report::{Goal, Report, quantile};
use super::worker::HoldRecord;
use super::{Setting, startup::ourselves};

const PROCESSES: usize = 8;

pub(crate) async fn processes(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    processes_within(setting, report, 2.0).await
}

/// The same, where a hand-over may take so many milliseconds.
pub(crate) async fn processes_within(
    setting: &Setting,
    report: &mut Report,
    millis: f64,
) -> Result<(), Failure> {
    for (part, hold_micros) in [
        ("8 processes, one name", 0),
        ("8 processes, 2 ms hold", 2000),
    ] {
        let mut holds = contend(setting, hold_micros);
        let grants: Vec<_> = holds.iter().map(Vec::len).collect();
        let (least, most) = (grants.iter().min(), grants.iter().max());
        #[expect(clippy::cast_precision_loss, reason = "a count of grants")]
        let evenness = match (least, most) {
            (Some(&least), Some(&most)) if most > 0 => least as f64 / most as f64,
            _ => 0.0,
        };
        let mut all: Vec<HoldRecord> = holds.drain(..).flatten().collect();
        all.sort_by_key(|hold| hold.token);
        let overlaps = all
            .windows(2)
            .filter(|pair| pair[1].got < pair[0].gave)
            .count();
        let mut gaps: Vec<f64> = all
            .windows(2)
            .map(|pair| pair[1].got - pair[0].gave)
            .collect();
        let span = all.last().map_or(0.0, |last| last.gave - all[0].got) / 1e6;
        #[expect(clippy::cast_precision_loss, reason = "a count of grants")]
        {
            report.figure(part, "grants", all.len() as f64 / span, "1/s", Goal::None)?;
            report.figure(
                part,
                "overlapping holds",
                overlaps as f64,
                "",
                Goal::AtMost(0.0),
            )?;
        }
        report.figure(
            part,
            "hand-over, p50",
            quantile(&mut gaps, 0.5) / 1e3,
            "ms",
            Goal::AtMost(millis),
        )?;
        report.figure(
            part,
            "hand-over, p99",
            quantile(&mut gaps, 0.99) / 1e3,
            "ms",
            Goal::None,
        )?;
        report.figure(
            part,
            "min/max grants per process",
            evenness,
            "",
            Goal::AtLeast(0.8),
        )?;
    }
    Ok(())
}

/// Starts the processes and collects what they did.
fn contend(setting: &Setting, hold_micros: u64) -> Vec<Vec<HoldRecord>> {
    let start = |_| {
        Command::new(ourselves())
            .arg("bench")
            .arg(format!("--worker=contend:{hold_micros}"))
            .arg(format!("--for={}ms", setting.time.as_millis()))
            .env("LEASEHOLD_URL", &setting.url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started")
    };
    let workers: Vec<_> = (0..PROCESSES).map(start).collect();
    let collect = |worker: std::process::Child| {
        let output = worker.wait_with_output().expect("the worker ends");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    workers.into_iter().map(collect).collect()
}
