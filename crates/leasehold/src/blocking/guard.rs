//! The guards, blocked on.

use std::time::Duration;

use super::EngineRoom;
use crate::error::Result;
use crate::fence::{Fence, Token};
use crate::guard::Lost;

/// A lock that is held; see [`crate::Guard`].
#[derive(Debug)]
#[must_use = "the lock is given back when the guard is dropped"]
pub struct Guard {
    pub(super) guard: crate::Guard,
    pub(super) engine_room: EngineRoom,
}

impl Guard {
    /// The lock's name.
    pub fn name(&self) -> &str {
        self.guard.name()
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// What to show to the resource this lock protects.
    pub fn fence(&self) -> Fence {
        self.guard.fence()
    }

    /// Whether the lock is still held, without I/O.
    ///
    /// # Errors
    /// As for [`crate::Guard::check`].
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// How long the lock is certainly held; see [`crate::Guard::valid_for`].
    pub fn valid_for(&self) -> Duration {
        self.guard.valid_for()
    }

    /// How long it took to get the lock.
    pub fn waited(&self) -> Duration {
        self.guard.waited()
    }

    /// How long the lock has been held.
    pub fn held(&self) -> Duration {
        self.guard.held()
    }

    /// Waits until the lock is lost and says why.
    ///
    /// # Errors
    /// `Usage` if called from async code.
    pub fn lost(&self) -> Result<Lost> {
        self.engine_room.run(self.guard.lost())
    }

    /// Gives the lock back; see [`crate::Guard::release`].
    ///
    /// # Errors
    /// As for [`crate::Guard::release`].
    pub fn release(self) -> Result<()> {
        self.engine_room.run(self.guard.release())?
    }
}

/// Guards of several locks; see [`crate::Guards`].
#[derive(Debug)]
#[must_use = "the locks are given back when the guards are dropped"]
pub struct Guards {
    pub(super) guards: crate::Guards,
    pub(super) engine_room: EngineRoom,
}

impl Guards {
    /// Whether all of them are still held, without I/O.
    ///
    /// # Errors
    /// The first loss.
    pub fn check(&self) -> Result<()> {
        self.guards.check()
    }

    /// The single guards, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &crate::Guard> {
        self.guards.iter()
    }

    /// Gives all of them back.
    ///
    /// # Errors
    /// The first error; the others are given back all the same.
    pub fn release(self) -> Result<()> {
        self.engine_room.run(self.guards.release())?
    }
}
