//! A mutex that its owner can enter again: by owner, not by thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};
use std::time::Duration;

use crate::acquire::Patience;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::mutex::Mutex;
use crate::name::Name;
use crate::owner::Owner;

/// A mutex that its owner can enter again. Made by
/// [`Session::reentrant`](crate::Session::reentrant).
///
/// An owner that already holds the name gets another guard on the same claim,
/// with the same token; the claim goes with the last guard. Another owner waits,
/// also in the same process.
#[derive(Debug, Clone)]
pub struct Reentrant {
    mutex: Mutex,
}

/// The holds of a session that can be entered again.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    by_name: StdMutex<HashMap<Name, Vec<Entry>>>,
}

#[derive(Debug)]
struct Entry {
    owner: Owner,
    cell: Arc<Cell>,
}

/// The owner's hold, if it has one. Whoever acquires for the owner has the lock
/// on it, so that a second call waits for the first and then shares.
type Cell = tokio::sync::Mutex<Weak<Hold>>;

impl Reentrant {
    pub(crate) fn new(mutex: Mutex) -> Self {
        Self { mutex }
    }

    /// Ends every hold after this time; see [`Mutex::max_hold`](crate::Mutex::max_hold).
    #[must_use]
    pub fn max_hold(self, longest: Duration) -> Self {
        Self::new(self.mutex.max_hold(longest))
    }

    /// Says how long a hold should take; see
    /// [`Mutex::expected_hold`](crate::Mutex::expected_hold).
    #[must_use]
    pub fn expected_hold(self, expected: Duration) -> Self {
        Self::new(self.mutex.expected_hold(expected))
    }

    /// Called when a hold takes longer; see
    /// [`Mutex::on_stuck`](crate::Mutex::on_stuck).
    #[must_use]
    pub fn on_stuck(self, told: impl Fn(crate::Stuck) + Send + Sync + 'static) -> Self {
        Self::new(self.mutex.on_stuck(told))
    }

    /// Waits for the lock, or enters it again if the owner holds it.
    ///
    /// # Errors
    /// As for [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn lock(&self, owner: &Owner) -> Result<Guard> {
        self.enter(owner, Patience::Wait).await
    }

    /// Waits for at most this long, or enters it again.
    ///
    /// # Errors
    /// As for [`Mutex::lock_within`](crate::Mutex::lock_within).
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn lock_within(&self, owner: &Owner, longest: Duration) -> Result<Guard> {
        let core = &self.mutex.target().anchor.core;
        let patience = Patience::within(core, longest);
        let entering = self.enter(owner, patience);
        let Patience::Until(deadline) = patience else {
            return entering.await;
        };
        tokio::select! {
            biased;
            guard = entering => guard,
            // Only a call of the same owner that is still waiting gets us here.
            () = core.clock.sleep_until(deadline) => {
                let doing = format!("lock {}", self.mutex.target().name()?);
                Err(Error::new(ErrorKind::TimedOut, doing, "the lock is held elsewhere"))
            }
        }
    }

    /// Holds the lock if it is free or the owner holds it already.
    ///
    /// # Errors
    /// As for [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_lock(&self, owner: &Owner) -> Result<Option<Guard>> {
        let cell = self.cell(owner)?;
        let Ok(mut entered) = cell.try_lock() else {
            return Ok(None);
        };
        if let Some(guard) = enter_again(&entered) {
            return Ok(Some(guard));
        }
        let guard = self.labelled(owner).try_lock().await?;
        if let Some(guard) = &guard {
            *entered = Arc::downgrade(guard.hold());
        }
        Ok(guard)
    }

    async fn enter(&self, owner: &Owner, patience: Patience) -> Result<Guard> {
        let cell = self.cell(owner)?;
        let mut entered = cell.lock().await;
        if let Some(guard) = enter_again(&entered) {
            return Ok(guard);
        }
        let guard = self.labelled(owner).target().waited(1, patience).await?;
        *entered = Arc::downgrade(guard.hold());
        Ok(guard)
    }

    fn labelled(&self, owner: &Owner) -> Mutex {
        self.mutex.clone().labelled(owner.shared_label())
    }

    /// The owner's cell for this name; cells that nobody uses are dropped on
    /// the way.
    fn cell(&self, owner: &Owner) -> Result<Arc<Cell>> {
        let target = self.mutex.target();
        let name = target.name()?;
        let mut by_name = target
            .anchor
            .core
            .entries
            .by_name
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        by_name.retain(|_, entries| {
            entries.retain(Entry::is_in_use);
            !entries.is_empty()
        });
        let entries = by_name.entry(name).or_default();
        if let Some(entry) = entries.iter().find(|entry| entry.owner.is(owner)) {
            return Ok(entry.cell.clone());
        }
        let cell = Arc::new(Cell::new(Weak::new()));
        entries.push(Entry {
            owner: owner.clone(),
            cell: cell.clone(),
        });
        Ok(cell)
    }
}

impl Entry {
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.cell) > 1
            || self
                .cell
                .try_lock()
                .is_ok_and(|entered| entered.strong_count() > 0)
    }
}

fn enter_again(entered: &Weak<Hold>) -> Option<Guard> {
    let hold = entered.upgrade()?;
    hold.enter().then(|| Guard::new(hold))
}
