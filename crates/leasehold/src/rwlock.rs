//! A lock that many readers or one writer hold at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Anchor;
use crate::error::Result;
use crate::guard::Guard;
use crate::mutex::Target;
use crate::rule::UNBOUNDED;
use crate::stuck::{OnStuck, Stuck};

/// A lock that many readers or one writer hold at a time. A waiting writer
/// holds back later readers, so neither starves.
#[derive(Debug, Clone)]
pub struct RwLock {
    target: Target,
}

impl RwLock {
    pub(crate) fn new(anchor: Arc<Anchor>, name: &str) -> Self {
        Self {
            target: Target::new(anchor, name, UNBOUNDED),
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
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

    /// Waits until no writer holds or waits before us, and reads.
    ///
    /// # Errors
    /// As for [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn read(&self) -> Result<Guard> {
        self.target.wait(1).await
    }

    /// Reads if that is possible now.
    ///
    /// # Errors
    /// As for [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_read(&self) -> Result<Option<Guard>> {
        self.target.attempt(1).await
    }

    /// Waits to read for at most this long.
    ///
    /// # Errors
    /// As for [`Mutex::lock_within`](crate::Mutex::lock_within).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn read_within(&self, longest: Duration) -> Result<Guard> {
        self.target.within(1, longest).await
    }

    /// Waits until everybody before us has left, and writes.
    ///
    /// # Errors
    /// As for [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn write(&self) -> Result<Guard> {
        self.target.wait(UNBOUNDED).await
    }

    /// Writes if that is possible now.
    ///
    /// # Errors
    /// As for [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_write(&self) -> Result<Option<Guard>> {
        self.target.attempt(UNBOUNDED).await
    }

    /// Waits to write for at most this long.
    ///
    /// # Errors
    /// As for [`Mutex::lock_within`](crate::Mutex::lock_within).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn write_within(&self, longest: Duration) -> Result<Guard> {
        self.target.within(UNBOUNDED, longest).await
    }
}
