//! A child process that does not outlive its owner.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running program, killed when it is dropped.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts a program without input and output.
    pub(super) fn start(program: &Path, arguments: impl IntoIterator<Item = String>) -> Self {
        Self::start_in(&[], program, arguments)
    }

    /// The same with these variables in its environment.
    pub(super) fn start_in(
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

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(_)))
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub(super) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Lets it stand still (SIGSTOP).
    pub(super) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on (SIGCONT).
    pub(super) fn resume(&self) {
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
