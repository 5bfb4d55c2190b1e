//! redis-py, as a child process that does one slice per line of its input. The
//! URL is in its environment: a password has no place among arguments.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Names, Reached};

const PROGRAM: &str = include_str!("redis_py.py");

/// The child; it ends when its input does.
#[derive(Debug)]
pub(crate) struct Python {
    pipes: Arc<Mutex<(ChildStdin, BufReader<ChildStdout>)>>,
    child: Child,
}

impl Python {
    /// `None` if Python or the library is not there.
    pub(crate) fn start(url: &str) -> Option<Self> {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM])
            .env("LEASEHOLD_BENCH_URL", url)
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
        let python = Self { pipes, child };
        is_ready.then_some(python)
    }

    pub(crate) async fn slice(
        &self,
        names: Names,
        tasks: usize,
        time: Duration,
    ) -> Option<Reached> {
        let pipes = self.pipes.clone();
        let names = u8::from(names == Names::OneForAll);
        let ask = move || {
            let mut pipes = pipes.lock().unwrap_or_else(PoisonError::into_inner);
            let (input, output) = &mut *pipes;
            writeln!(input, "{names} {tasks} {}", time.as_secs_f64()).ok()?;
            let mut line = String::new();
            output.read_line(&mut line).ok()?;
            serde_json::from_str(&line).ok()
        };
        // Sessions must be kept alive meanwhile.
        tokio::task::spawn_blocking(ask).await.ok().flatten()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
