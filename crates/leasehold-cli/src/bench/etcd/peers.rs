//! Other programs in the same run: Go's `concurrency.Mutex`, if the program that
//! `cargo xtask tools` builds around it is found, and `etcdctl lock`, if this
//! machine has it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bench::Setting;
use crate::bench::report::{Goal, Report, median};
use crate::bench::startup::ourselves;
use crate::exit::Failure;

const RUNS: usize = 30;

/// What a peer reached in one slice.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(super) struct Reached {
    /// Microseconds for a cycle.
    pub(super) p50: f64,
    /// Cycles per second of all tasks.
    pub(super) rate: f64,
}

/// The child with Go's client; it ends when its input does.
#[derive(Debug)]
pub(super) struct Go {
    pipes: Arc<Mutex<(ChildStdin, BufReader<ChildStdout>)>>,
    child: Child,
}

impl Go {
    /// `None` if the program is not there or cannot reach the server; a line of
    /// the report says so.
    pub(super) fn start(
        setting: &Setting,
        part: &str,
        report: &mut Report,
    ) -> Result<Option<Self>, Failure> {
        let go = Self::find(&setting.url);
        if go.is_none() {
            let why =
                "Go's client is left out: no etcd-go (`cargo xtask tools`), or not for this URL";
            report.note(part, why)?;
        }
        Ok(go)
    }

    fn find(url: &str) -> Option<Self> {
        // Users and certificates are beyond that program.
        let url = url
            .split('?')
            .next()
            .filter(|url| url.starts_with("etcd://"))?;
        if url.contains('@') {
            return None;
        }
        let mut child = Command::new(program()?)
            .args(["slices", url, "leasehold-bench/go"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let input = child.stdin.take()?;
        let mut output = BufReader::new(child.stdout.take()?);
        let mut ready = String::new();
        let is_ready = output.read_line(&mut ready).is_ok() && ready.trim() == "ready";
        let pipes = Arc::new(Mutex::new((input, output)));
        let go = Self { pipes, child };
        is_ready.then_some(go)
    }

    /// Lets so many tasks lock for the time: one name, or each its own.
    pub(super) async fn slice(
        &self,
        is_one_name: bool,
        tasks: usize,
        time: Duration,
    ) -> Option<Reached> {
        let pipes = self.pipes.clone();
        let names = u8::from(is_one_name);
        let ask = move || {
            let mut pipes = pipes.lock().unwrap_or_else(PoisonError::into_inner);
            let (input, output) = &mut *pipes;
            writeln!(input, "{names} {tasks} {}", time.as_secs_f64()).ok()?;
            let mut line = String::new();
            output.read_line(&mut line).ok()?;
            serde_json::from_str(&line).ok()
        };
        // Our own sessions must be kept alive meanwhile.
        tokio::task::spawn_blocking(ask).await.ok().flatten()
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// On the path, or where `cargo xtask tools` puts it beside this very program.
fn program() -> Option<PathBuf> {
    let name = "etcd-go";
    let ours = std::env::current_exe().ok()?;
    let beside = ours.parent()?.parent()?.join("tools/clients").join(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    on_path.chain([beside]).find(|file| file.is_file())
}

/// A command under a lock, with us and with `etcdctl lock`.
pub(super) fn commands(setting: &Setting, report: &mut Report) -> Result<(), Failure> {
    let part = "run x -- true";
    let places = setting.url.split('?').next().unwrap_or_default();
    let Some(places) = places
        .strip_prefix("etcd://")
        .filter(|url| !url.contains('@'))
    else {
        return report.note(part, "etcdctl is left out: not for this URL");
    };
    let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
    for _ in 0..RUNS {
        let mut etcdctl = Command::new("etcdctl");
        etcdctl
            .args(["lock", "leasehold-bench/etcdctl", "true"])
            .env("ETCDCTL_API", "3")
            .env("ETCDCTL_ENDPOINTS", places);
        let mut mine = Command::new(ourselves());
        mine.args(["run", "leasehold-bench/run", "--", "true"])
            .env("LEASEHOLD_URL", &setting.url);
        let (Some(mine), Some(their)) = (milliseconds(&mut mine), milliseconds(&mut etcdctl))
        else {
            return report.note(part, "etcdctl is left out: it is not there, or fails");
        };
        ours.push(mine);
        theirs.push(their);
        ratios.push(mine / their);
    }
    let mut figure = |what, value, unit, goal| report.figure(part, what, value, unit, goal);
    figure(
        "leasehold run x -- true, p50",
        median(&mut ours),
        "ms",
        Goal::None,
    )?;
    figure(
        "etcdctl lock x true, p50",
        median(&mut theirs),
        "ms",
        Goal::None,
    )?;
    let ratio = median(&mut ratios);
    figure("against etcdctl", ratio, "x", Goal::AtMost(1.0))
}

fn milliseconds(command: &mut Command) -> Option<f64> {
    let start = Instant::now();
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = quiet.stderr(Stdio::null()).status().ok()?;
    status
        .success()
        .then(|| start.elapsed().as_secs_f64() * 1e3)
}
