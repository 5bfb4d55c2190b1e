//! Latches, barriers and stamps, blocked on.

use std::time::Duration;

use super::EngineRoom;
use super::locks::{Blocking, RwLock};
use crate::error::Result;
use crate::stamp::Stamp;

/// See [`crate::Latch`].
pub type Latch = Blocking<crate::Latch>;
/// See [`crate::Barrier`].
pub type Barrier = Blocking<crate::Barrier>;

impl RwLock {
    /// Begins to read without the lock.
    ///
    /// # Errors
    /// As for [`crate::RwLock::stamp`].
    pub fn stamp(&self) -> Result<Stamp> {
        self.engine_room.run(self.lock.stamp())?
    }

    /// Whether no writer was granted the lock since.
    ///
    /// # Errors
    /// As for [`crate::RwLock::validate`].
    pub fn validate(&self, stamp: &Stamp) -> Result<bool> {
        self.engine_room.run(self.lock.validate(stamp))?
    }
}

impl Latch {
    /// Counts one part, and says how many are left.
    ///
    /// # Errors
    /// As for [`crate::Latch::count_down`].
    pub fn count_down(&self) -> Result<u32> {
        self.engine_room.run(self.lock.count_down())?
    }

    /// Counts the part of this name, once however often it is asked.
    ///
    /// # Errors
    /// As for [`crate::Latch::count_down_as`].
    pub fn count_down_as(&self, part: impl AsRef<str>) -> Result<u32> {
        self.engine_room.run(self.lock.count_down_as(part))?
    }

    /// How many parts are left.
    ///
    /// # Errors
    /// As for [`crate::Latch::left`].
    pub fn left(&self) -> Result<u32> {
        self.engine_room.run(self.lock.left())?
    }

    /// Waits until it is open.
    ///
    /// # Errors
    /// As for [`crate::Latch::wait`].
    pub fn wait(&self) -> Result<()> {
        self.engine_room.run(self.lock.wait())?
    }

    /// Waits for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Latch::wait_within`].
    pub fn wait_within(&self, longest: Duration) -> Result<()> {
        self.engine_room.run(self.lock.wait_within(longest))?
    }

    /// Closes it: nothing is counted any more.
    ///
    /// # Errors
    /// As for [`crate::Latch::reset`].
    pub fn reset(&self) -> Result<()> {
        self.engine_room.run(self.lock.reset())?
    }
}

impl Barrier {
    /// Waits until all are here.
    ///
    /// # Errors
    /// As for [`crate::Barrier::enter`].
    pub fn enter(&self) -> Result<Entered> {
        let entered = self.engine_room.run(self.lock.enter())??;
        Ok(self.entered(entered))
    }

    /// Waits for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Barrier::enter_within`].
    pub fn enter_within(&self, longest: Duration) -> Result<Entered> {
        let entered = self.engine_room.run(self.lock.enter_within(longest))??;
        Ok(self.entered(entered))
    }

    fn entered(&self, entered: crate::Entered) -> Entered {
        Entered {
            entered,
            engine_room: self.engine_room.clone(),
        }
    }
}

/// See [`crate::Entered`].
#[must_use = "whoever drops it has left"]
#[derive(Debug)]
pub struct Entered {
    entered: crate::Entered,
    engine_room: EngineRoom,
}

impl Entered {
    /// Whether our permit still counts, without I/O.
    ///
    /// # Errors
    /// The loss.
    pub fn check(&self) -> Result<()> {
        self.entered.guard().check()
    }

    /// Leaves, and waits until all the others have left.
    ///
    /// # Errors
    /// As for [`crate::Entered::leave`].
    pub fn leave(self) -> Result<()> {
        self.engine_room.run(self.entered.leave())?
    }
}
