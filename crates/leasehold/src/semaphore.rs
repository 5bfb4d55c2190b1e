//! A lock with a number of permits.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Anchor;
use crate::error::Result;
use crate::guard::Guard;
use crate::mutex::Target;
use crate::stuck::{OnStuck, Stuck};

/// A lock with a number of permits. A permit is a named claim with an owner and
/// a lease, so a crash cannot leak one and nothing is counted twice.
#[derive(Debug, Clone)]
pub struct Semaphore {
    target: Target,
}

impl Semaphore {
    pub(crate) fn new(anchor: Arc<Anchor>, name: &str, permits: u32) -> Self {
        Self {
            target: Target::new(anchor, name, permits),
        }
    }

    /// Ends every hold after this time; see [`Mutex::max_hold`](crate::Mutex::max_hold).
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.target.limits.max_hold = Some(longest);
        self
    }

    /// Ends every hold with its `most`-th renewal; see
    /// [`Mutex::max_renewals`](crate::Mutex::max_renewals).
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.target.limits.max_renewals = Some(most);
        self
    }

    /// Says how long a hold should take; see
    /// [`Mutex::expected_hold`](crate::Mutex::expected_hold).
    #[must_use]
    pub fn expected_hold(mut self, expected: Duration) -> Self {
        self.target.limits.expected_hold = Some(expected);
        self
    }

    /// Called when a hold takes longer; see
    /// [`Mutex::on_stuck`](crate::Mutex::on_stuck).
    #[must_use]
    pub fn on_stuck(mut self, told: impl Fn(Stuck) + Send + Sync + 'static) -> Self {
        self.target.limits.on_stuck = Some(OnStuck::new(told));
        self
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// `Conflict` if another party names another number of permits; else as for
    /// [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_many(1).await
    }

    /// Waits for several permits, held by one guard.
    ///
    /// # Errors
    /// `Usage` if there are not that many; else as for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn acquire_many(&self, permits: u32) -> Result<Guard> {
        self.target.wait(permits).await
    }

    /// A permit if there is one now.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.try_acquire_many(1).await
    }

    /// Several permits if there are that many now.
    ///
    /// # Errors
    /// As for [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>> {
        self.target.attempt(permits).await
    }

    /// Waits for a permit for at most this long.
    ///
    /// # Errors
    /// `TimedOut`; else as for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn acquire_within(&self, longest: Duration) -> Result<Guard> {
        self.target.within(1, longest).await
    }

    /// Waits for several permits for at most this long.
    ///
    /// # Errors
    /// `TimedOut`; else as for [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn acquire_many_within(&self, permits: u32, longest: Duration) -> Result<Guard> {
        self.target.within(permits, longest).await
    }
}
