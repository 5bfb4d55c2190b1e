//! Every exit code, and how an error becomes one. The numbers are those of
//! `sysexits.h`, so that they do not look like an ordinary program's failure.

use std::io;

use leasehold::ErrorKind;

pub(crate) const OK: u8 = 0;
/// An argument is wrong.
pub(crate) const USAGE: u8 = 64;
/// A message was begun too often and never done.
pub(crate) const GIVEN_UP: u8 = 65;
/// The store cannot be reached.
pub(crate) const UNAVAILABLE: u8 = 69;
/// A fault of ours.
pub(crate) const BUG: u8 = 70;
/// The operating system refused something that it normally does.
pub(crate) const SYSTEM: u8 = 71;
/// A file cannot be written.
pub(crate) const INPUT_OUTPUT: u8 = 74;
/// The lock is held elsewhere.
pub(crate) const HELD: u8 = 75;
/// The lock was lost while it was in use.
pub(crate) const LOST: u8 = 76;
/// The store refuses us.
pub(crate) const DENIED: u8 = 77;
/// The store or its URL is not what it should be.
pub(crate) const CONFIG: u8 = 78;
/// The command is there but cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command is not there.
pub(crate) const NOT_FOUND: u8 = 127;

/// What `--help` and the manual say about exit codes.
pub(crate) const TABLE: &str = "\
Exit codes:
  the command's own, or 128+N if signal N ended it
  1    stamp --validate: a writer came, or may have
  64   wrong usage, or the name is in use as another kind of lock
  65   given up: begun as often as allowed and never done (once --key --max-attempts)
  69   the store cannot be reached
  70   an internal error
  75   held elsewhere, or timed out while waiting (-E changes it, --skip-ok makes it 0)
       or doctor --deadlocks has found some, or a writer came while stamp read
  76   the lock was lost while it was in use; never 0 after a loss
       or a fenced file refuses us because a newer holder came
  77   the store denies access
  78   wrong configuration, or a store that is not fit for locks
  126  the command cannot be executed
  127  the command was not found";

/// The code for each kind of error.
pub(crate) fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage | ErrorKind::Conflict | ErrorKind::Unsupported => USAGE,
        ErrorKind::Config => CONFIG,
        ErrorKind::Unavailable => UNAVAILABLE,
        ErrorKind::Denied => DENIED,
        ErrorKind::TimedOut => HELD,
        ErrorKind::Lost(_) | ErrorKind::Stale(_) => LOST,
        // `Closed` cannot reach a user: nothing here closes a session in use.
        _ => BUG,
    }
}

/// The code of a process that a signal ended.
pub(crate) fn signalled(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Why a command of ours ends early: a code and one line for people.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// Empty if there is nobody to tell.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// The operating system refused something.
    pub(crate) fn system(doing: &str, error: impl std::fmt::Display) -> Self {
        Self::new(SYSTEM, format!("{doing}: {error}"))
    }
}

impl From<leasehold::Error> for Failure {
    fn from(error: leasehold::Error) -> Self {
        Self::new(code(error.kind()), error.to_string())
    }
}

/// Writing to standard output failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The reader has seen enough, as in `leasehold ls | head -1`.
            return Self::new(signalled(nix::libc::SIGPIPE), "");
        }
        Self::new(INPUT_OUTPUT, format!("write the output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_and_a_time_out_have_codes_of_their_own() {
        assert_eq!(code(ErrorKind::Lost(leasehold::Lost::Gone)), 76);
        assert_eq!(code(ErrorKind::TimedOut), 75);
        assert_eq!(code(ErrorKind::Closed), 70);
    }

    #[test]
    fn a_signal_is_told_as_shells_tell_it() {
        assert_eq!(signalled(15), 143);
        assert_eq!(signalled(64), 192);
    }
}
