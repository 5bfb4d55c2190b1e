//! Several mutexes, all or none.
//!
//! Where the store can, all are taken in one step if all are free. Else the
//! names are sorted and taken one after the other, so two callers never wait
//! for each other in a circle.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::acquire::{AllOrNone, Patience, acquire_together};
use crate::core::Anchor;
use crate::error::Result;
use crate::guard::{Guard, Lost};
use crate::mutex::Target;

/// How long a caller whose wait is over waits for the store to know.
const ROLL_BACK: Duration = Duration::from_millis(50);

/// Several mutexes, all or none. Made by
/// [`Session::lock_all`](crate::Session::lock_all).
#[derive(Debug, Clone)]
pub struct LockAll {
    anchor: Arc<Anchor>,
    names: BTreeSet<String>,
}

impl LockAll {
    pub(crate) fn new<N: AsRef<str>>(
        anchor: Arc<Anchor>,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        let names = names.into_iter().map(|name| name.as_ref().to_owned());
        Self {
            anchor,
            names: names.collect(),
        }
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// As for [`Mutex::lock`](crate::Mutex::lock); nothing is held then.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it has got.
    pub async fn lock(&self) -> Result<Guards> {
        self.waited(Patience::Wait).await
    }

    /// Waits for all of them, for at most this long in all.
    ///
    /// # Errors
    /// `TimedOut` if one of them is held elsewhere for too long; nothing is
    /// held then.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it has got.
    pub async fn lock_within(&self, longest: Duration) -> Result<Guards> {
        self.waited(Patience::within(&self.anchor.core, longest))
            .await
    }

    /// Holds all of them if all are free now; `None` if one is not, and then
    /// nothing is held.
    ///
    /// # Errors
    /// As for [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// Dropping the future gives back what it has got.
    pub async fn try_lock(&self) -> Result<Option<Guards>> {
        match self.together(Patience::Try).await? {
            Some(AllOrNone::All(guards)) => return Ok(Some(Guards(guards))),
            Some(AllOrNone::None) => return Ok(None),
            None => {}
        }
        let mut guards = Guards::default();
        for target in self.targets() {
            match target.attempt(1).await {
                Ok(Some(guard)) => guards.0.push(guard),
                Ok(None) => {
                    guards.give_back().await;
                    return Ok(None);
                }
                Err(error) => {
                    guards.give_back().await;
                    return Err(error);
                }
            }
        }
        Ok(Some(guards))
    }

    async fn waited(&self, patience: Patience) -> Result<Guards> {
        if let Ok(Some(AllOrNone::All(guards))) = self.together(patience).await {
            return Ok(Guards(guards));
        }
        let mut guards = Guards::default();
        for target in self.targets() {
            match target.waited(1, patience).await {
                Ok(guard) => guards.0.push(guard),
                Err(error) => {
                    guards.give_back().await;
                    return Err(error);
                }
            }
        }
        Ok(guards)
    }

    /// All in one step, if that can be.
    async fn together(&self, patience: Patience) -> Result<Option<AllOrNone>> {
        if self.names.len() < 2 {
            return Ok(None);
        }
        let wants = self.targets().map(|target| target.want(1));
        let wants = wants.collect::<Result<Vec<_>>>()?;
        acquire_together(&self.anchor, &wants, patience).await
    }

    fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        let anchor = &self.anchor;
        self.names
            .iter()
            .map(|name| Target::new(anchor.clone(), name, 1))
    }
}

/// Guards of several locks, sorted by name, each name once.
#[derive(Debug, Default)]
#[must_use = "the locks are given back when the guards are dropped"]
pub struct Guards(Vec<Guard>);

impl Guards {
    /// Whether all of them are still held, without I/O.
    ///
    /// # Errors
    /// The first loss.
    pub fn check(&self) -> Result<()> {
        self.0.iter().try_for_each(Guard::check)
    }

    /// Waits until the first of them is lost; for ever if there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn lost(&self) -> Lost {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        select_all(self.0.iter().map(|guard| Box::pin(guard.lost())))
            .await
            .0
    }

    /// Gives all of them back, the last one first.
    ///
    /// # Errors
    /// The first error; the others are given back all the same.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the rest to the background.
    pub async fn release(self) -> Result<()> {
        let mut result = Ok(());
        for guard in self.0.into_iter().rev() {
            let released = guard.release().await;
            if result.is_ok() {
                result = released;
            }
        }
        result
    }

    /// Rolls back. What went wrong with a lock we no longer want is of no
    /// interest: the reaper sees to it, and also to what takes longer than the
    /// caller can wait.
    async fn give_back(self) {
        let releases = join_all(self.0.into_iter().map(Guard::release));
        let _ = tokio::time::timeout(ROLL_BACK, releases).await;
    }
}

impl Deref for Guards {
    type Target = [Guard];
    fn deref(&self) -> &[Guard] {
        &self.0
    }
}
