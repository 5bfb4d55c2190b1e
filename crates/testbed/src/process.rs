//! A child process that does not outlive its owner.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Whether a program is there and says so.
pub(crate) fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A running program, killed when it is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a program without input and output.
    pub fn start(program: &Path, arguments: impl IntoIterator<Item = String>) -> Self {
        Self::start_in(&[], program, arguments)
    }

    /// The same with these variables in its environment.
    pub fn start_in(
        variables: &[(&str, PathBuf)],
        program: &Path,
        arguments: impl IntoIterator<Item = String>,
    ) -> Self {
        let child = Command::new(program)
            .args(arguments)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{} starts: {error}", program.display())))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(_)))
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Lets it stand still (SIGSTOP).
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it is a child of ours");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
