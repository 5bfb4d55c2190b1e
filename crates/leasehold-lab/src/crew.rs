//! The workers of a run: real processes that are started, stopped, let go on
//! and killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::history::{Event, Line};
use crate::recorder::Recorder;
use crate::worker::Job;

/// A worker's process. It is killed with its owner, and dies with the thread
/// that started it, however that ends.
#[derive(Debug)]
pub struct Hand {
    /// Its name in the history.
    pub name: String,
    child: Child,
    listeners: Vec<JoinHandle<()>>,
    recorder: Recorder,
    /// The last that it said on its standard error.
    complaint: Arc<Mutex<Vec<String>>>,
}

/// How many lines of its standard error are kept.
const KEPT: usize = 12;

impl Hand {
    /// Starts one.
    ///
    /// # Errors
    /// If this program cannot be started once more.
    pub fn start(job: &Job, recorder: &Recorder) -> std::io::Result<Self> {
        let mut child = Command::new(program()?)
            .arg("worker")
            .arg(std::process::id().to_string())
            .arg(serde_json::to_string(job)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let complaint = Arc::default();
        let output = child.stdout.take().map(|output| listen(output, recorder));
        let errors = child.stderr.take().map(|errors| keep(errors, &complaint));
        Ok(Self {
            name: job.name.clone(),
            child,
            listeners: output.into_iter().chain(errors).collect(),
            recorder: recorder.clone(),
            complaint,
        })
    }

    /// Lets it stand still.
    pub fn pause(&self) {
        self.recorder.breaks("pause", &self.name);
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.recorder.heals("pause", &self.name);
        self.signal(Signal::CONT);
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        // It stands still first. So it does nothing after the moment that is
        // told, and nobody is let in for its death before that.
        if !self.has_ended() {
            self.signal(Signal::STOP);
            until(Duration::from_secs(1), || {
                self.is_stopped() || self.has_ended()
            });
        }
        self.recorder.tell(&self.name, Event::Killed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it stands still by itself.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        // The state comes after the name, which is in parentheses.
        let state = stat
            .rsplit_once(") ")
            .map(|(_, rest)| rest.starts_with('T'));
        state.unwrap_or(false)
    }

    /// Whether it has come to its end.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended, at most so long; kills it then. Gives whether
    /// it ended by itself.
    pub fn finish(&mut self, longest: Duration) -> bool {
        let has_ended = until(longest, || self.has_ended());
        if !has_ended {
            self.kill();
        }
        for listener in self.listeners.drain(..) {
            let _ = listener.join();
        }
        has_ended
    }

    /// Why it ended, if it did so by itself and not well.
    pub fn failure(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let complaint = self.complaint.lock();
        let complaint = complaint.unwrap_or_else(PoisonError::into_inner).join("; ");
        (!status.success()).then(|| format!("{status}: {complaint}"))
    }

    fn signal(&self, signal: Signal) {
        // One that has ended already needs no signal.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes what a worker tells until it ends.
fn listen(output: ChildStdout, recorder: &Recorder) -> JoinHandle<()> {
    let recorder = recorder.clone();
    std::thread::spawn(move || {
        for text in BufReader::new(output).lines().map_while(Result::ok) {
            // What is no line of ours is the half line of a killed one.
            if let Ok(line) = serde_json::from_str::<Line>(&text) {
                recorder.take(line);
            }
        }
    })
}

/// Keeps the last lines of what a worker complains of.
fn keep(errors: ChildStderr, complaint: &Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    let complaint = complaint.clone();
    std::thread::spawn(move || {
        for text in BufReader::new(errors).lines().map_while(Result::ok) {
            let mut kept = complaint.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == KEPT {
                kept.remove(0);
            }
            kept.push(text);
        }
    })
}

/// The program of the lab, which is also that of its workers. A test runs from
/// a folder beside it.
fn program() -> std::io::Result<std::path::PathBuf> {
    let this = std::env::current_exe()?;
    if this.file_stem().is_some_and(|name| name == "leasehold-lab") {
        return Ok(this);
    }
    let folders = this.ancestors().skip(1).take(2);
    let mut programs = folders.map(|folder| folder.join("leasehold-lab"));
    programs
        .find(|program| program.is_file())
        .ok_or_else(|| std::io::Error::other("leasehold-lab is not built"))
}

/// Waits for a state, at most so long; gives whether it came.
pub fn until(longest: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + longest;
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
