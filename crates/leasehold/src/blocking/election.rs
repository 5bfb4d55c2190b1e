//! Elections, blocked on.

use std::time::Duration;

use super::recipes::Holding;
use super::{Blocking, Session};
pub use crate::election::{LONGEST_VALUE, Leader, Sighting};
use crate::error::Result;

/// See [`crate::election::Election`].
pub type Election = Blocking<crate::election::Election>;
/// See [`crate::election::Leadership`].
pub type Leadership = Blocking<crate::election::Leadership>;
/// See [`crate::election::Observer`].
pub type Observer = Blocking<crate::election::Observer>;

impl Session {
    /// One leader among all who name the same election.
    ///
    /// ```
    /// let session = leasehold::blocking::connect("memory:")?;
    /// let election = session.election("shop/leader");
    /// let leadership = election.campaign("10.0.0.5:8080")?;
    /// let leader = election.leader()?.expect("we lead");
    /// assert_eq!(leader.token, leadership.token());
    /// leadership.resign()
    /// # ?; Ok::<(), leasehold::Error>(())
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        self.with(self.session.election(name))
    }
}

impl Election {
    /// Waits until we lead, and says so with this value.
    ///
    /// # Errors
    /// As for [`crate::election::Election::campaign`].
    pub fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership> {
        let leadership = self.engine_room.run(self.lock.campaign(value))??;
        Ok(self.beside(leadership))
    }

    /// Who leads now, if anybody does.
    ///
    /// # Errors
    /// As for [`crate::election::Election::leader`].
    pub fn leader(&self) -> Result<Option<Leader>> {
        self.engine_room.run(self.lock.leader())?
    }

    /// Every leader in order, and when there is none.
    pub fn observe(&self) -> Observer {
        self.beside(self.lock.observe())
    }
}

impl Holding for crate::election::Leadership {
    fn hold(&self) -> &crate::Guard {
        self.guard()
    }
}

impl Leadership {
    /// The how-manieth leader we are.
    ///
    /// # Errors
    /// `Usage` if called from async code.
    pub fn term(&self) -> Result<u64> {
        self.engine_room.run(self.lock.term())
    }

    /// Says something else of ourselves.
    ///
    /// # Errors
    /// As for [`crate::election::Leadership::proclaim`].
    pub fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<()> {
        self.engine_room.run(self.lock.proclaim(value))?
    }

    /// Lets another lead.
    ///
    /// # Errors
    /// As for [`crate::election::Leadership::resign`].
    pub fn resign(self) -> Result<()> {
        self.engine_room.run(self.lock.resign())?
    }
}

impl Observer {
    /// How often to look.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.lock = self.lock.every(pause);
        self
    }

    /// Waits for the next sighting.
    ///
    /// # Errors
    /// As for [`crate::election::Observer::next`].
    #[allow(
        clippy::should_implement_trait,
        reason = "it has the name of the async one, and no end"
    )]
    pub fn next(&mut self) -> Result<Sighting> {
        self.engine_room.run(self.lock.next())?
    }

    /// Waits for at most this long; `None` if there was nothing to tell.
    ///
    /// # Errors
    /// As for [`crate::election::Observer::next`].
    pub fn next_within(&mut self, longest: Duration) -> Result<Option<Sighting>> {
        let next = async { tokio::time::timeout(longest, self.lock.next()).await };
        self.engine_room.run(next)?.ok().transpose()
    }
}
