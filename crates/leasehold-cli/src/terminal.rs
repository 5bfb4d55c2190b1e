//! Job control: which process group has the terminal.
//!
//! The command has a process group of its own, and only one group at a time may
//! use the terminal. If both ends are on the terminal the command gets it at
//! the start. Otherwise we may be part of a pipeline that needs it, such as
//! `leasehold run x -- make | less`; then the command gets it when it asks.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal that this process belongs to.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: File,
    /// How it was set up before the command had it.
    settings: Option<Termios>,
    /// Whether the command starts with the terminal.
    pub(crate) is_ours_alone: bool,
}

impl Terminal {
    /// The controlling terminal, if there is one.
    pub(crate) fn open() -> Option<Self> {
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        let interactive = io::stdin().is_terminal() && io::stdout().is_terminal();
        let is_ours_alone = interactive && is_foreground(&device);
        let settings = tcgetattr(&device).ok();
        Some(Self {
            device,
            settings,
            is_ours_alone,
        })
    }

    /// Whether our own group has the terminal.
    pub(crate) fn is_foreground(&self) -> bool {
        is_foreground(&self.device)
    }

    /// Gives the terminal to the group.
    pub(crate) fn give_to(&self, group: Pid) {
        give(&self.device, group);
    }

    /// Takes the terminal back if the group has it.
    pub(crate) fn take_from(&self, group: Pid) {
        if tcgetpgrp(&self.device) == Ok(group) {
            give(&self.device, getpgrp());
        }
    }

    /// Sets the terminal up as it was: an editor that is killed leaves it
    /// without an echo.
    pub(crate) fn restore(&self) {
        if let Some(settings) = &self.settings
            && self.is_foreground()
        {
            let _ = tcsetattr(&self.device, SetArg::TCSADRAIN, settings);
        }
    }
}

/// Whether the process may read the terminal that is its standard input.
pub(crate) fn may_read_stdin() -> bool {
    !io::stdin().is_terminal() || is_foreground(io::stdin())
}

/// Gives the terminal on standard input to our own group.
pub(crate) fn claim_stdin() {
    give(io::stdin(), getpgrp());
}

/// Stops our own job, as Ctrl-Z does. Returns when it is continued, or at once
/// if nobody could continue it.
pub(crate) fn stop_ourselves() {
    let _ = killpg(getpgrp(), Signal::SIGTSTP);
}

fn is_foreground(device: impl AsFd) -> bool {
    tcgetpgrp(device) == Ok(getpgrp())
}

/// Somebody in the background who gives the terminal away is stopped with
/// SIGTTOU, unless the signal is blocked.
fn give(device: impl AsFd, group: Pid) {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTTOU);
    if let Ok(before) = mask.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK) {
        let _ = tcsetpgrp(device, group);
        let _ = before.thread_set_mask();
    }
}
