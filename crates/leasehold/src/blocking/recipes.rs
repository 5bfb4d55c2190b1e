//! Latches, barriers and stamps, blocked on.

use std::time::Duration;

use super::Session;
use super::locks::{Blocking, RwLock};
use crate::error::Result;
use crate::fence::{Fence, Token};
use crate::guard::Lost;
use crate::stamp::{Stamp, StampWord};

/// See [`crate::Latch`].
pub type Latch = Blocking<crate::Latch>;
/// See [`crate::Barrier`].
pub type Barrier = Blocking<crate::Barrier>;
/// See [`crate::Entered`].
pub type Entered = Blocking<crate::Entered>;

impl Session {
    /// A latch that opens when so many parts are counted.
    ///
    /// ```
    /// let session = leasehold::blocking::connect("memory:")?;
    /// let loaded = session.latch("shop/loaded", 2);
    /// assert_eq!(loaded.count_down_as("prices")?, 1);
    /// assert_eq!(loaded.count_down_as("stock")?, 0);
    /// loaded.wait()?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn latch(&self, name: impl AsRef<str>, total: u32) -> Latch {
        self.with(self.session.latch(name, total))
    }

    /// A double barrier for so many members.
    ///
    /// ```
    /// let session = leasehold::blocking::connect("memory:")?;
    /// let barrier = session.barrier("load/test", 2);
    /// std::thread::scope(|scope| {
    ///     let meet = || barrier.enter()?.leave(); // both are here; both are done
    ///     let other = scope.spawn(meet);
    ///     meet()?;
    ///     other.join().expect("it does not panic")
    /// })?;
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn barrier(&self, name: impl AsRef<str>, total: u32) -> Barrier {
        self.with(self.session.barrier(name, total))
    }
}

impl RwLock {
    /// Begins to read without the lock.
    ///
    /// ```
    /// let session = leasehold::blocking::connect("memory:")?;
    /// let prices = session.rwlock("shop/prices");
    /// let stamp = prices.stamp()?;
    /// assert!(prices.validate(&stamp)?);
    /// prices.write()?.release()?;
    /// assert!(!prices.validate(&stamp)?);
    /// # Ok::<(), leasehold::Error>(())
    /// ```
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

    /// The same for a stamp of another session, as one word.
    ///
    /// # Errors
    /// As for [`crate::RwLock::validate_word`].
    pub fn validate_word(&self, word: &StampWord) -> Result<bool> {
        self.engine_room.run(self.lock.validate_word(word))?
    }
}

impl Latch {
    /// See [`crate::Latch::keep`].
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.lock = self.lock.keep(keep);
        self
    }

    /// Counts one part, and says how many are left.
    ///
    /// # Errors
    /// As for [`crate::Latch::count_down`].
    pub fn count_down(&self) -> Result<u32> {
        self.engine_room.run(self.lock.count_down())?
    }

    /// Counts so many parts, all or none; says how many are left then.
    ///
    /// # Errors
    /// As for [`crate::Latch::count_down_by`].
    pub fn count_down_by(&self, parts: u32) -> Result<u32> {
        self.engine_room.run(self.lock.count_down_by(parts))?
    }

    /// Counts the part of this name, once however often it is asked, by whomever.
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
    /// See [`crate::Barrier::keep`].
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.lock = self.lock.keep(keep);
        self
    }

    /// Waits until all are here.
    ///
    /// # Errors
    /// As for [`crate::Barrier::enter`].
    pub fn enter(&self) -> Result<Entered> {
        let entered = self.engine_room.run(self.lock.enter())??;
        Ok(self.beside(entered))
    }

    /// Waits for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Barrier::enter_within`].
    pub fn enter_within(&self, longest: Duration) -> Result<Entered> {
        let entered = self.engine_room.run(self.lock.enter_within(longest))??;
        Ok(self.beside(entered))
    }
}

impl Entered {
    /// Leaves, and waits until all the others have left.
    ///
    /// # Errors
    /// As for [`crate::Entered::leave`].
    pub fn leave(self) -> Result<()> {
        self.engine_room.run(self.lock.leave())?
    }
}

/// Something with a hold behind it.
pub trait Holding {
    #[doc(hidden)]
    fn hold(&self) -> &crate::Guard;
}

impl Holding for crate::Entered {
    fn hold(&self) -> &crate::Guard {
        self.guard()
    }
}

impl<T: Holding> Blocking<T> {
    /// The fencing token.
    pub fn token(&self) -> Token {
        self.lock.hold().token()
    }

    /// What to show to the resource that this protects.
    pub fn fence(&self) -> Fence {
        self.lock.hold().fence()
    }

    /// Whether it is still ours, without I/O.
    ///
    /// # Errors
    /// As for [`crate::Guard::check`].
    pub fn check(&self) -> Result<()> {
        self.lock.hold().check()
    }

    /// Waits until it is lost and says why.
    ///
    /// # Errors
    /// `Usage` if called from async code.
    pub fn lost(&self) -> Result<Lost> {
        self.engine_room.run(self.lock.hold().lost())
    }
}
