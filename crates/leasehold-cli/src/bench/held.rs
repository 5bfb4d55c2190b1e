//! Ten thousand held locks: what keeping them alive costs.

use std::process::{Command, Stdio};

use crate::exit::Failure;

use super::report::{Goal, Report};
use super::worker::HeldRecord;
use super::{Setting, startup::ourselves};

const LOCKS: usize = 10_000;

pub(crate) async fn held(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "10000 held locks";
    // A process of its own, so that nobody else's memory is counted.
    let output = Command::new(ourselves())
        .arg("bench")
        .arg(format!("--worker=held:{LOCKS}"))
        .arg(format!("--for={}ms", setting.time.as_millis()))
        .env("LEASEHOLD_URL", &setting.url)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("this program can be started");
    let Ok(record) = serde_json::from_slice::<HeldRecord>(&output.stdout) else {
        report.figure(part, "still held", 0.0, "locks", Goal::AtLeast(10_000.0))?;
        return Ok(());
    };
    #[expect(clippy::cast_precision_loss, reason = "a count of locks")]
    let still_held = record.still_held as f64;
    report.figure(
        part,
        "still held",
        still_held,
        "locks",
        Goal::AtLeast(10_000.0),
    )?;
    report.figure(
        part,
        "renewal, at ttl 3 s",
        record.core_percent,
        "% of core",
        Goal::AtMost(2.0),
    )?;
    report.figure(
        part,
        "resident memory per lock",
        record.bytes_per_lock,
        "bytes",
        Goal::AtMost(1024.0),
    )?;
    Ok(())
}
