//! The command: how it is started, told and waited for.
//!
//! It is started through ourselves (`leasehold __exec`), because between fork
//! and exec it must ask for a signal upon our death, and asking there without
//! `unsafe` needs a process of its own. That process stops before it becomes the
//! command, so that everything is in place when the command takes its first step.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, exit};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{AccessFlags, Pid, access, getppid};
use tokio::signal::unix::{self, SignalKind};

use crate::exit::{self, Failure};
use crate::print::complain;
use crate::signals::Signals;
use crate::terminal;

/// The hidden command that becomes the user's command.
pub(crate) const EXEC: &str = "__exec";

/// What it does before it becomes the command: nothing, stop, or stop and then
/// take the terminal.
const GO: &str = "go";
const STOP: &str = "stop";
const STOP_AND_CLAIM: &str = "stop-and-claim";

/// What the command finds in its environment beside what we have ourselves.
pub(crate) type Environment = Vec<(&'static str, String)>;

/// A running command and its process group.
#[derive(Debug)]
pub(crate) struct Child {
    /// The process, and the group that it leads.
    pub(crate) group: Pid,
    leads_group: bool,
    process: std::process::Child,
    changes: unix::Signal,
}

/// What happened to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Exited(u8),
    /// A signal ended it: its number, because the real-time ones have no name.
    Killed(i32),
    Stopped(Signal),
}

impl Child {
    /// Starts the command in a process group of its own, where it stops before
    /// its first step.
    pub(crate) fn start(
        argv: &[OsString],
        environment: &Environment,
        gets_terminal: bool,
    ) -> Result<Self, Failure> {
        let mode = if gets_terminal { STOP_AND_CLAIM } else { STOP };
        Self::spawn(through_us(argv, environment, mode).process_group(0), true)
    }

    /// Starts the command in our own process group.
    fn start_beside(argv: &[OsString], environment: &Environment) -> Result<Self, Failure> {
        Self::spawn(&mut through_us(argv, environment, GO), false)
    }

    fn spawn(command: &mut Command, leads_group: bool) -> Result<Self, Failure> {
        let failed = |error| Failure::system("start the command", error);
        // Caught before the start, so that no end goes unseen.
        let changes = unix::signal(SignalKind::child()).map_err(failed)?;
        let process = command.spawn().map_err(failed)?;
        let pid =
            i32::try_from(process.id()).map_err(|_| failed(io::ErrorKind::InvalidData.into()))?;
        Ok(Self {
            group: Pid::from_raw(pid),
            leads_group,
            process,
            changes,
        })
    }

    /// Sends the signal to every process of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // Whoever is gone needs no signal, and nobody waits for it to work.
        let _ = self.send(signal);
    }

    /// Kills every process of the group; `false` if the system does not let us,
    /// as with a command that became another user.
    pub(crate) fn kill(&self) -> bool {
        self.send(Signal::SIGKILL) != Err(Errno::EPERM)
    }

    fn send(&self, signal: Signal) -> nix::Result<()> {
        if self.leads_group {
            killpg(self.group, signal)
        } else {
            kill(self.group, signal)
        }
    }

    /// Whether a process of the group is left.
    pub(crate) fn is_group_alive(&self) -> bool {
        killpg(self.group, None) != Err(Errno::ESRCH)
    }

    /// Waits until something happens to the command. Safe to cancel.
    pub(crate) async fn change(&mut self) -> Change {
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return Change::end(status),
                Ok(None) => {}
                // Somebody else has waited for it: there is nothing to learn.
                Err(_) => return Change::Exited(exit::BUG),
            }
            let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WSTOPPED;
            if let Ok(WaitStatus::Stopped(_, signal)) = waitid(Id::Pid(self.group), flags) {
                return Change::Stopped(signal);
            }
            self.changes.recv().await;
        }
    }
}

/// Runs the command in our own process group to its end; signals are passed on.
pub(crate) async fn run_beside(
    argv: &[OsString],
    environment: &Environment,
    signals: &mut Signals,
) -> Result<Change, Failure> {
    let mut child = Child::start_beside(argv, environment)?;
    loop {
        tokio::select! {
            change = child.change() => match change {
                Change::Stopped(_) => {}
                ended => return Ok(ended),
            },
            signal = signals.next() => child.signal(signal),
        }
    }
}

impl Change {
    /// The exit code that tells of it, as shells do.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => exit::signalled(signal),
            Self::Stopped(signal) => exit::signalled(signal as i32),
        }
    }

    pub(crate) fn end(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Self::Killed(signal),
            (None, None) => Self::Exited(exit::BUG),
        }
    }
}

fn through_us(argv: &[OsString], environment: &Environment, mode: &str) -> Command {
    let mut command = ourselves();
    command.args([EXEC, &std::process::id().to_string(), mode]);
    command.args(argv);
    command.envs(environment.iter().map(|(key, value)| (key, value)));
    command
}

/// This program, also if its file was replaced meanwhile.
pub(crate) fn ourselves() -> Command {
    if cfg!(target_os = "linux") {
        return Command::new("/proc/self/exe");
    }
    Command::new(std::env::current_exe().unwrap_or_else(|_| "leasehold".into()))
}

/// `leasehold __exec PARENT MODE COMMAND…`: becomes the command.
pub(crate) fn become_command(mut arguments: impl Iterator<Item = OsString>) -> ! {
    let parent = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let mode = arguments.next().unwrap_or_default();
    let Some(command) = arguments.next() else {
        exit(exit::USAGE.into());
    };
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    // It may have died before we asked to be told.
    if parent != Some(getppid().as_raw()) {
        exit(exit::signalled(nix::libc::SIGKILL).into());
    }
    if mode != GO {
        let _ = raise(Signal::SIGSTOP);
    }
    if mode == STOP_AND_CLAIM {
        terminal::claim_stdin();
    }
    let failure = replace_us(&command, arguments, &Environment::new());
    complain(&failure.message);
    exit(failure.code.into());
}

/// Becomes the command; returns only if that fails.
pub(crate) fn replace_us(
    command: &OsStr,
    arguments: impl IntoIterator<Item = OsString>,
    environment: &Environment,
) -> Failure {
    let mut process = Command::new(command);
    process.args(arguments);
    process.envs(environment.iter().map(|(key, value)| (key, value)));
    let error = process.exec();
    not_runnable(command, error.kind() == io::ErrorKind::NotFound, &error)
}

/// Says at once, before any waiting, that the command cannot be run.
pub(crate) fn check(command: &OsStr) -> Result<(), Failure> {
    let is_runnable = |path: &Path| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    let candidates: Vec<PathBuf> = if command.is_empty() {
        Vec::new()
    } else if command.as_encoded_bytes().contains(&b'/') {
        vec![command.into()]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        std::env::split_paths(&path)
            .map(|folder| folder.join(command))
            .collect()
    };
    if candidates.iter().any(|path| is_runnable(path)) {
        return Ok(());
    }
    match candidates.iter().find(|path| path.exists()) {
        Some(path) if path.is_dir() => Err(not_runnable(command, false, &"is a directory")),
        Some(_) => Err(not_runnable(
            command,
            false,
            &"permission denied; see chmod +x",
        )),
        None => Err(not_runnable(command, true, &"no such command")),
    }
}

fn not_runnable(command: &OsStr, is_missing: bool, why: &dyn std::fmt::Display) -> Failure {
    let code = if is_missing {
        exit::NOT_FOUND
    } else {
        exit::NOT_EXECUTABLE
    };
    Failure::new(code, format!("run {}: {why}", command.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_cannot_be_run_is_found_out() {
        let code = |command: &str| check(OsStr::new(command)).map_err(|failure| failure.code);
        assert_eq!(code("sh"), Ok(()));
        assert_eq!(code("/bin/sh"), Ok(()));
        assert_eq!(code("no-such-command"), Err(127));
        assert_eq!(code("/no/such/command"), Err(127));
        assert_eq!(code("/etc/passwd"), Err(126));
        assert_eq!(code("/etc"), Err(126));
        assert_eq!(code(""), Err(127));
    }
}
