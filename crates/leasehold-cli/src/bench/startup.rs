//! `leasehold run x -- true` beside `flock f true`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::exit::Failure;

use super::report::{Goal, Report, median};
use super::{Scratch, Setting};

const ROUNDS: usize = 40;

/// This very program, also if it has been replaced on disk meanwhile.
pub(crate) fn ourselves() -> PathBuf {
    "/proc/self/exe".into()
}

pub(crate) fn startup(
    setting: &Setting,
    scratch: &Scratch,
    report: &mut Report,
) -> Result<(), Failure> {
    let part = "run x -- true";
    let (mut ours, mut flocks, mut more) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let mine = milliseconds(
            Command::new(ourselves())
                .args(["run", "leasehold-bench/run", "--", "true"])
                .env("LEASEHOLD_URL", &setting.url),
        );
        let flock = milliseconds(Command::new("flock").arg(scratch.path("flock")).arg("true"));
        let (Some(mine), Some(flock)) = (mine, flock) else {
            report.figure(part, "flock is not installed", 0.0, "", Goal::None)?;
            return Ok(());
        };
        ours.push(mine);
        flocks.push(flock);
        more.push(mine - flock);
    }
    report.figure(
        part,
        "leasehold run x -- true, p50",
        median(&mut ours),
        "ms",
        Goal::None,
    )?;
    report.figure(
        part,
        "flock f true, p50",
        median(&mut flocks),
        "ms",
        Goal::None,
    )?;
    report.figure(
        part,
        "slower than flock by",
        median(&mut more),
        "ms",
        Goal::AtMost(10.0),
    )?;
    Ok(())
}

fn milliseconds(command: &mut Command) -> Option<f64> {
    let start = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .ok()?;
    status
        .success()
        .then(|| start.elapsed().as_secs_f64() * 1e3)
}
