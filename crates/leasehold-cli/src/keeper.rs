//! A second process that kills the command if leasehold itself is killed.
//!
//! The signal upon our death reaches the command but not its children. The
//! keeper reads a pipe that only we can write to: when it ends without a word,
//! we are dead, and the keeper kills the whole group. Until that is done it
//! keeps a copy of the session's lifeline open, so that the store does not let
//! anyone else in before.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use leasehold::Session;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::Pid;

use crate::child::ourselves;

/// The hidden command that is the keeper.
pub(crate) const KEEPER: &str = "__keeper";
/// Not ours, so that `pkill leasehold` spares it.
const NAME: &str = "lock-keeper";
/// What we write when all is well.
const FAREWELL: &[u8] = b"k";
/// How long dying may take: a process in the middle of a system call on a dead
/// disk may take for ever.
const LONGEST: Duration = Duration::from_secs(2);

/// The keeper as leasehold sees it.
#[derive(Debug)]
pub(crate) struct Keeper {
    process: Child,
    /// Ends when we do.
    pipe: Option<ChildStdin>,
}

impl Keeper {
    /// Starts the keeper, before there is anything to keep.
    pub(crate) fn start(session: &Session) -> io::Result<Self> {
        let lifeline = session.lifeline().map_or_else(Stdio::null, Stdio::from);
        let mut process = ourselves()
            .arg0(NAME)
            .arg(KEEPER)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(lifeline)
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = process.stdin.take();
        Ok(Self { process, pipe })
    }

    /// Names the group to kill.
    pub(crate) fn keep(&mut self, group: Pid) -> io::Result<()> {
        let mut pipe = self.pipe.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(pipe, "{group}")
    }

    /// The command has ended; there is nothing to kill any more.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(FAREWELL);
        }
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_there(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Sees the keeper off, which takes no time once it is dismissed. In a
    /// container nobody else might, and it would be a zombie for ever.
    pub(crate) fn see_off(mut self) {
        for _ in 0..100 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// `leasehold __keeper`: waits for the end of the pipe.
pub(crate) fn keeper() {
    // Nothing but the end of the pipe counts: not a hang-up of the terminal, nor
    // what the kernel sends to a group that lost its parent.
    let _ = SigSet::all().thread_block();
    #[cfg(target_os = "linux")]
    if let Ok(name) = std::ffi::CString::new(NAME) {
        let _ = nix::sys::prctl::set_name(&name);
    }
    let mut heard = Vec::new();
    // A read that fails ends the pipe as well.
    let _ = io::stdin().read_to_end(&mut heard);
    let Some(group) = group_to_kill(&heard) else {
        return;
    };
    let begun = Instant::now();
    loop {
        // Again and again: a process may have been forked meanwhile.
        let _ = killpg(group, Signal::SIGKILL);
        if begun.elapsed() > LONGEST || !lives(group) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The group, unless the pipe ended with the word that all is well.
fn group_to_kill(heard: &[u8]) -> Option<Pid> {
    if heard.ends_with(FAREWELL) {
        return None;
    }
    let group = std::str::from_utf8(heard)
        .ok()?
        .strip_suffix('\n')?
        .parse()
        .ok()?;
    // Group 1 and below mean something else to the system.
    (group > 1).then(|| Pid::from_raw(group))
}

/// Whether the group has a process that is more than a zombie.
fn lives(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return killpg(group, None).is_ok();
    };
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat"));
        stat.is_ok_and(|stat| is_alive_in(&stat, group))
    })
}

/// Reads `pid (name) state parent group …`; the name may have any characters.
fn is_alive_in(stat: &str, group: Pid) -> bool {
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut fields = rest.split_whitespace();
    let state = fields.next();
    let its_group = fields.nth(1).and_then(|group| group.parse().ok());
    its_group == Some(group.as_raw()) && !matches!(state, Some("Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_killed_only_if_the_pipe_ends_without_a_farewell() {
        assert_eq!(group_to_kill(b"4711\n"), Some(Pid::from_raw(4711)));
        for heard in [&b"4711\nk"[..], b"", b"k", b"47", b"1\n", b"0\n", b"-5\n"] {
            assert_eq!(group_to_kill(heard), None, "{heard:?}");
        }
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let group = Pid::from_raw(7);
        assert!(is_alive_in("9 (a) b) S 1 7 7 0", group));
        assert!(!is_alive_in("9 (sh) Z 1 7 7 0", group));
        assert!(!is_alive_in("9 (sh) S 1 8 8 0", group));
    }
}
