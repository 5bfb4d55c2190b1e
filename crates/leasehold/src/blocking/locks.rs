//! The locks, blocked on.

use std::time::Duration;

use super::EngineRoom;
use super::guard::{Guard, Guards};
use crate::error::Result;
use crate::owner::Owner;
use crate::stuck::Stuck;

/// Something of the async API, blocked on.
#[derive(Debug, Clone)]
pub struct Blocking<T> {
    pub(super) lock: T,
    pub(super) engine_room: EngineRoom,
}

/// See [`crate::Mutex`].
pub type Mutex = Blocking<crate::Mutex>;
/// See [`crate::RwLock`].
pub type RwLock = Blocking<crate::RwLock>;
/// See [`crate::Semaphore`].
pub type Semaphore = Blocking<crate::Semaphore>;
/// See [`crate::Reentrant`].
pub type Reentrant = Blocking<crate::Reentrant>;
/// See [`crate::LockAll`].
pub type LockAll = Blocking<crate::LockAll>;

impl<T> Blocking<T> {
    /// Something that came of it.
    pub(super) fn beside<U>(&self, lock: U) -> Blocking<U> {
        Blocking {
            lock,
            engine_room: self.engine_room.clone(),
        }
    }

    fn guard(&self, work: impl Future<Output = Result<crate::Guard>>) -> Result<Guard> {
        let guard = self.engine_room.run(work)??;
        Ok(Guard {
            guard,
            engine_room: self.engine_room.clone(),
        })
    }

    fn tried(
        &self,
        work: impl Future<Output = Result<Option<crate::Guard>>>,
    ) -> Result<Option<Guard>> {
        let engine_room = self.engine_room.clone();
        let guard = self.engine_room.run(work)??;
        Ok(guard.map(|guard| Guard { guard, engine_room }))
    }
}

impl Mutex {
    /// Ends every hold after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Says how long a hold should take.
    #[must_use]
    pub fn expected_hold(mut self, expected: Duration) -> Self {
        self.lock = self.lock.expected_hold(expected);
        self
    }

    /// Called when a hold takes longer, on a thread where it may block.
    #[must_use]
    pub fn on_stuck(mut self, told: impl Fn(Stuck) + Send + Sync + 'static) -> Self {
        self.lock = self.lock.on_stuck(told);
        self
    }

    /// Ends every hold with its `most`-th renewal.
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.lock = self.lock.max_renewals(most);
        self
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// As for [`crate::Mutex::lock`].
    pub fn lock(&self) -> Result<Guard> {
        self.guard(self.lock.lock())
    }

    /// Holds the lock if it is free.
    ///
    /// # Errors
    /// As for [`crate::Mutex::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        self.tried(self.lock.try_lock())
    }

    /// Waits for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Mutex::lock_within`].
    pub fn lock_within(&self, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.lock_within(longest))
    }
}

impl RwLock {
    /// Ends every hold after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Says how long a hold should take.
    #[must_use]
    pub fn expected_hold(mut self, expected: Duration) -> Self {
        self.lock = self.lock.expected_hold(expected);
        self
    }

    /// Called when a hold takes longer, on a thread where it may block.
    #[must_use]
    pub fn on_stuck(mut self, told: impl Fn(Stuck) + Send + Sync + 'static) -> Self {
        self.lock = self.lock.on_stuck(told);
        self
    }

    /// Ends every hold with its `most`-th renewal.
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.lock = self.lock.max_renewals(most);
        self
    }

    /// Waits to read.
    ///
    /// # Errors
    /// As for [`crate::RwLock::read`].
    pub fn read(&self) -> Result<Guard> {
        self.guard(self.lock.read())
    }

    /// Reads if that is possible now.
    ///
    /// # Errors
    /// As for [`crate::RwLock::try_read`].
    pub fn try_read(&self) -> Result<Option<Guard>> {
        self.tried(self.lock.try_read())
    }

    /// Waits to read for at most this long.
    ///
    /// # Errors
    /// As for [`crate::RwLock::read_within`].
    pub fn read_within(&self, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.read_within(longest))
    }

    /// Waits to write.
    ///
    /// # Errors
    /// As for [`crate::RwLock::write`].
    pub fn write(&self) -> Result<Guard> {
        self.guard(self.lock.write())
    }

    /// Writes if that is possible now.
    ///
    /// # Errors
    /// As for [`crate::RwLock::try_write`].
    pub fn try_write(&self) -> Result<Option<Guard>> {
        self.tried(self.lock.try_write())
    }

    /// Waits to write for at most this long.
    ///
    /// # Errors
    /// As for [`crate::RwLock::write_within`].
    pub fn write_within(&self, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.write_within(longest))
    }
}

impl Semaphore {
    /// Ends every hold after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Says how long a hold should take.
    #[must_use]
    pub fn expected_hold(mut self, expected: Duration) -> Self {
        self.lock = self.lock.expected_hold(expected);
        self
    }

    /// Called when a hold takes longer, on a thread where it may block.
    #[must_use]
    pub fn on_stuck(mut self, told: impl Fn(Stuck) + Send + Sync + 'static) -> Self {
        self.lock = self.lock.on_stuck(told);
        self
    }

    /// Ends every hold with its `most`-th renewal.
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.lock = self.lock.max_renewals(most);
        self
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::acquire`].
    pub fn acquire(&self) -> Result<Guard> {
        self.guard(self.lock.acquire())
    }

    /// Waits for several permits.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::acquire_many`].
    pub fn acquire_many(&self, permits: u32) -> Result<Guard> {
        self.guard(self.lock.acquire_many(permits))
    }

    /// A permit if there is one now.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        self.tried(self.lock.try_acquire())
    }

    /// Several permits if there are that many now.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::try_acquire_many`].
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>> {
        self.tried(self.lock.try_acquire_many(permits))
    }

    /// Waits for several permits for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::acquire_many_within`].
    pub fn acquire_many_within(&self, permits: u32, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.acquire_many_within(permits, longest))
    }

    /// Waits for a permit for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::acquire_within`].
    pub fn acquire_within(&self, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.acquire_within(longest))
    }
}

impl Reentrant {
    /// Ends every hold after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Says how long a hold should take.
    #[must_use]
    pub fn expected_hold(mut self, expected: Duration) -> Self {
        self.lock = self.lock.expected_hold(expected);
        self
    }

    /// Called when a hold takes longer, on a thread where it may block.
    #[must_use]
    pub fn on_stuck(mut self, told: impl Fn(Stuck) + Send + Sync + 'static) -> Self {
        self.lock = self.lock.on_stuck(told);
        self
    }

    /// Waits for the lock, or enters it again.
    ///
    /// # Errors
    /// As for [`crate::Reentrant::lock`].
    pub fn lock(&self, owner: &Owner) -> Result<Guard> {
        self.guard(self.lock.lock(owner))
    }

    /// Holds the lock if it is free or the owner holds it already.
    ///
    /// # Errors
    /// As for [`crate::Reentrant::try_lock`].
    pub fn try_lock(&self, owner: &Owner) -> Result<Option<Guard>> {
        self.tried(self.lock.try_lock(owner))
    }

    /// Waits for at most this long, or enters it again.
    ///
    /// # Errors
    /// As for [`crate::Reentrant::lock_within`].
    pub fn lock_within(&self, owner: &Owner, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.lock_within(owner, longest))
    }
}

impl LockAll {
    /// Waits for all of them.
    ///
    /// # Errors
    /// As for [`crate::LockAll::lock`].
    pub fn lock(&self) -> Result<Guards> {
        let guards = self.engine_room.run(self.lock.lock())??;
        Ok(Guards {
            guards,
            engine_room: self.engine_room.clone(),
        })
    }

    /// Waits for all of them, for at most this long in all.
    ///
    /// # Errors
    /// As for [`crate::LockAll::lock_within`].
    pub fn lock_within(&self, longest: Duration) -> Result<Guards> {
        let guards = self.engine_room.run(self.lock.lock_within(longest))??;
        Ok(Guards {
            guards,
            engine_room: self.engine_room.clone(),
        })
    }

    /// Holds all of them if all are free now.
    ///
    /// # Errors
    /// As for [`crate::LockAll::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guards>> {
        let engine_room = self.engine_room.clone();
        let guards = self.engine_room.run(self.lock.try_lock())??;
        Ok(guards.map(|guards| Guards {
            guards,
            engine_room,
        }))
    }
}
