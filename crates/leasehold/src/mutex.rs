//! A lock that one party holds at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{Patience, Want, acquire};
use crate::core::Anchor;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::hold::Limits;
use crate::name::Name;
use crate::stuck::{OnStuck, Stuck};

/// A lock that one party holds at a time. Made by
/// [`Session::mutex`](crate::Session::mutex); cheap to make and to clone.
#[derive(Debug, Clone)]
pub struct Mutex {
    target: Target,
}

impl Mutex {
    pub(crate) fn new(anchor: Arc<Anchor>, name: &str) -> Self {
        Self {
            target: Target::new(anchor, name, 1),
        }
    }

    /// Ends every hold after this time: the guard is then lost with
    /// `HoldLimit`, however well its renewals go.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.target.limits.max_hold = Some(longest);
        self
    }

    /// Ends every hold with the deadline of its `most`-th renewal.
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.target.limits.max_renewals = Some(most);
        self
    }

    /// Says how long a hold should take. One that takes longer is counted
    /// (`leasehold_stuck_total`), logged and told to [`on_stuck`](Self::on_stuck),
    /// once; it goes on.
    #[must_use]
    pub fn expected_hold(mut self, expected: Duration) -> Self {
        self.target.limits.expected_hold = Some(expected);
        self
    }

    /// Called when a hold outlives its [`expected_hold`](Self::expected_hold), on
    /// a thread where it may block.
    #[must_use]
    pub fn on_stuck(mut self, told: impl Fn(Stuck) + Send + Sync + 'static) -> Self {
        self.target.limits.on_stuck = Some(OnStuck::new(told));
        self
    }

    pub(crate) fn labelled(mut self, label: Arc<str>) -> Self {
        self.target.label = Some(label);
        self
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Waits for the lock and holds it. Waiters are served in order of arrival.
    ///
    /// # Errors
    /// `Unavailable` if the store is out of reach for longer than the session's
    /// patience.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn lock(&self) -> Result<Guard> {
        self.target.wait(1).await
    }

    /// Holds the lock if it is free, without waiting; `None` if it is held or
    /// others wait for it. Then nothing was written to the store.
    ///
    /// # Errors
    /// `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        self.target.attempt(1).await
    }

    /// Waits for the lock for at most this long.
    ///
    /// # Errors
    /// `TimedOut` if it is held elsewhere all the while.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn lock_within(&self, longest: Duration) -> Result<Guard> {
        self.target.within(1, longest).await
    }
}

/// A named lock of some capacity, on some session.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) anchor: Arc<Anchor>,
    /// As the user gave it: a bad name is an error when the lock is used.
    pub(crate) name: Arc<str>,
    capacity: u32,
    pub(crate) limits: Limits,
    pub(crate) label: Option<Arc<str>>,
}

impl Target {
    pub(crate) fn new(anchor: Arc<Anchor>, name: &str, capacity: u32) -> Self {
        Self {
            anchor,
            name: name.into(),
            capacity,
            limits: Limits::default(),
            label: None,
        }
    }

    pub(crate) fn name(&self) -> Result<Name> {
        Name::new(&self.name)
    }

    pub(crate) fn want(&self, weight: u32) -> Result<Want> {
        let name = self.name()?;
        let capacity = self.capacity;
        if weight == 0 || weight > capacity {
            let why = format!("{weight} of {capacity} permits asked; allowed is 1 to {capacity}");
            return Err(Error::new(ErrorKind::Usage, format!("lock {name}"), why));
        }
        Ok(Want {
            name,
            capacity,
            weight,
            limits: self.limits.clone(),
            label: self.label.clone(),
        })
    }

    pub(crate) async fn wait(&self, weight: u32) -> Result<Guard> {
        self.waited(weight, Patience::Wait).await
    }

    pub(crate) async fn within(&self, weight: u32, longest: Duration) -> Result<Guard> {
        let patience = Patience::within(&self.anchor.core, longest);
        self.waited(weight, patience).await
    }

    pub(crate) async fn attempt(&self, weight: u32) -> Result<Option<Guard>> {
        acquire(&self.anchor, &self.want(weight)?, Patience::Try).await
    }

    pub(crate) async fn waited(&self, weight: u32, patience: Patience) -> Result<Guard> {
        let want = self.want(weight)?;
        match acquire(&self.anchor, &want, patience).await? {
            Some(guard) => Ok(guard),
            // Only a try comes back with nothing.
            None => Err(Error::new(
                ErrorKind::TimedOut,
                format!("lock {}", want.name),
                "held",
            )),
        }
    }
}
