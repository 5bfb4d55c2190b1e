//! Once per period, blocked on.

use std::time::Duration;

use super::recipes::Holding;
use super::{Blocking, Session};
use crate::error::Result;
pub use crate::once::{Missed, OnCrash, Schedule};

/// See [`crate::once::Once`].
pub type Once = Blocking<crate::once::Once>;
/// See [`crate::once::Run`].
pub type Run = Blocking<crate::once::Run>;
/// See [`crate::once::Begun`].
pub type Begun = crate::once::Begun<Run>;

impl Session {
    /// Something that is done once per slot of a schedule, by whoever asks first.
    ///
    /// ```
    /// use leasehold::blocking::once::{Begun, Schedule};
    /// let session = leasehold::blocking::connect("memory:")?;
    /// let hourly = Schedule::per(std::time::Duration::from_secs(3600))?;
    /// let once = session.once("reports/hourly", hourly);
    /// while let Begun::Started(run) = once.begin()? {
    ///     println!("slot {} is ours", run.slot());
    ///     run.complete()?;
    /// }
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn once(&self, name: impl AsRef<str>, schedule: Schedule) -> Once {
        self.with(self.session.once(name, schedule))
    }
}

impl Once {
    /// What is done about slots that nobody ran in their time.
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.lock = self.lock.missed(missed);
        self
    }

    /// What is done about a slot whose run was cut off.
    #[must_use]
    pub fn on_crash(mut self, on_crash: OnCrash) -> Self {
        self.lock = self.lock.on_crash(on_crash);
        self
    }

    /// The lock is kept for at least this long, however short the run is.
    #[must_use]
    pub fn at_least(mut self, shortest: Duration) -> Self {
        self.lock = self.lock.at_least(shortest);
        self
    }

    /// Asks for the slot of now, by our wall clock.
    ///
    /// # Errors
    /// As for [`crate::once::Once::begin`].
    pub fn begin(&self) -> Result<Begun> {
        let begun = self.engine_room.run(self.lock.begin())??;
        Ok(begun.map(|run| self.beside(run)))
    }

    /// Asks for a slot.
    ///
    /// # Errors
    /// As for [`crate::once::Once::begin_slot`].
    pub fn begin_slot(&self, due: u64) -> Result<Begun> {
        let begun = self.engine_room.run(self.lock.begin_slot(due))??;
        Ok(begun.map(|run| self.beside(run)))
    }

    /// Forgets which slots were run; `false` if somebody holds the lock.
    ///
    /// # Errors
    /// As for [`crate::once::Once::reset`].
    pub fn reset(&self) -> Result<bool> {
        self.engine_room.run(self.lock.reset())?
    }
}

impl Holding for crate::once::Run {
    fn hold(&self) -> &crate::Guard {
        self.guard()
    }
}

impl Run {
    /// Which slot.
    pub fn slot(&self) -> u64 {
        self.lock.slot()
    }

    /// The how-manieth run of this slot it is, from 1.
    pub fn attempt(&self) -> u32 {
        self.lock.attempt()
    }

    /// The slot is done, and never run again.
    ///
    /// # Errors
    /// As for [`crate::once::Run::complete`].
    pub fn complete(self) -> Result<()> {
        self.engine_room.run(self.lock.complete())?
    }
}
