//! One effect per message, blocked on. What marks a message inside an SQL
//! transaction is there for async code only, as such transactions are.

use std::time::Duration;

use super::recipes::Holding;
use super::{Blocking, Session};
pub use crate::dedupe::{LONGEST_KEY, LONGEST_RESULT};
use crate::error::Result;

/// See [`crate::dedupe::Dedupe`].
pub type Dedupe = Blocking<crate::dedupe::Dedupe>;
/// See [`crate::dedupe::Work`].
pub type Work = Blocking<crate::dedupe::Work>;
/// See [`crate::dedupe::Begun`].
pub type Begun = crate::dedupe::Begun<Work>;

impl Session {
    /// A message that has one effect, whoever is given it and however often.
    ///
    /// ```
    /// use leasehold::blocking::dedupe::Begun;
    /// let session = leasehold::blocking::connect("memory:")?;
    /// for _delivery in 0..3 {
    ///     match session.dedupe("order-17/charge").begin()? {
    ///         Begun::Started(work) => work.complete("charged 5 EUR")?,
    ///         Begun::Done(receipt) => assert_eq!(receipt, b"charged 5 EUR"),
    ///         other => println!("not now: {other:?}"),
    ///     }
    /// }
    /// # Ok::<(), leasehold::Error>(())
    /// ```
    pub fn dedupe(&self, key: impl AsRef<str>) -> Dedupe {
        self.with(self.session.dedupe(key))
    }
}

impl Dedupe {
    /// How long the store remembers the message.
    #[must_use]
    pub fn retention(mut self, keep: Duration) -> Self {
        self.lock = self.lock.retention(keep);
        self
    }

    /// How often the message may be begun.
    #[must_use]
    pub fn max_attempts(mut self, most: u32) -> Self {
        self.lock = self.lock.max_attempts(most);
        self
    }

    /// Ends the work after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Asks for the message.
    ///
    /// # Errors
    /// As for [`crate::dedupe::Dedupe::begin`].
    pub fn begin(&self) -> Result<Begun> {
        let begun = self.engine_room.run(self.lock.begin())??;
        Ok(begun.map(|work| self.beside(work)))
    }
}

impl Holding for crate::dedupe::Work {
    fn hold(&self) -> &crate::Guard {
        self.guard()
    }
}

impl Work {
    /// Which message.
    pub fn key(&self) -> &str {
        self.lock.key()
    }

    /// The how-manieth time it was begun, from 1.
    pub fn attempt(&self) -> u32 {
        self.lock.attempt()
    }

    /// The message is done: from now on whoever asks gets this result.
    ///
    /// # Errors
    /// As for [`crate::dedupe::Work::complete`].
    pub fn complete(&self, result: impl AsRef<[u8]>) -> Result<()> {
        self.engine_room.run(self.lock.complete(result))?
    }

    /// Gives the lock back, and returns when the store knows.
    ///
    /// # Errors
    /// As for [`crate::dedupe::Work::release`].
    pub fn release(self) -> Result<()> {
        self.engine_room.run(self.lock.release())?
    }

    /// As if it had not been begun: the attempt is not counted.
    ///
    /// # Errors
    /// As for [`crate::dedupe::Work::abandon`].
    pub fn abandon(self) -> Result<()> {
        self.engine_room.run(self.lock.abandon())?
    }
}
