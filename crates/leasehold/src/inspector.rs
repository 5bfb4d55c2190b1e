//! The store as people look at it.

use std::sync::Arc;

use crate::config::Config;
use crate::deadlock::Lock;
use crate::engine::{
    Cause, ClaimRef, Engine, Finding, Promises, Queue, Reading, TicketId, Withdrawn,
};
use crate::error::Result;
use crate::name::Name;

/// Looks at a store without taking part: no lease, no claims.
#[derive(Debug, Clone)]
pub struct Inspector {
    engine: Arc<dyn Engine>,
}

/// Connects to a store to look at it, without a session.
///
/// # Errors
/// As for [`connect`](crate::connect).
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub async fn inspect(url: &str) -> Result<Inspector> {
    let (engine, _) = Config::parse(url)?.engine().await?;
    Ok(Inspector::new(engine))
}

impl Inspector {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// What the store guarantees.
    pub fn promises(&self) -> Promises {
        self.engine.promises()
    }

    /// The lock's queue, holders first, and what was broken of late.
    ///
    /// # Errors
    /// `Usage` for a bad name, `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn queue(&self, name: impl AsRef<str>) -> Result<Queue> {
        self.engine.queue(&Name::new(name)?).await
    }

    /// The names that have claims and start with the prefix, sorted.
    ///
    /// # Errors
    /// `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        self.engine.names(prefix).await
    }

    /// The locks that have claims and whose names start with the prefix, with
    /// their queues. They are read one after the other, so this is not one
    /// moment; see [`deadlock::standing`](crate::deadlock::standing).
    ///
    /// # Errors
    /// `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn locks(&self, prefix: &str) -> Result<Vec<Lock>> {
        let mut locks = Vec::new();
        for name in self.names(prefix).await? {
            let queue = self.engine.queue(&name).await?;
            // It may have been released since the names were listed.
            if !queue.claims.is_empty() {
                locks.push(Lock { name, queue });
            }
        }
        Ok(locks)
    }

    /// The memo of a lock, and what the store's clock shows, if it has one.
    ///
    /// # Errors
    /// `Usage` for a bad name, `Unsupported` if the store keeps no memos,
    /// `Conflict` if something else is in its place, `Unavailable` if the store
    /// cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn memo(&self, name: impl AsRef<str>) -> Result<Reading> {
        self.engine.read_memo(&Name::new(name)?).await
    }

    /// Whether the store is fit for locks.
    ///
    /// # Errors
    /// `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn examine(&self) -> Result<Vec<Finding>> {
        self.engine.examine().await
    }

    /// Breaks the lock: evicts its present holders, whose guards are lost with
    /// `Evicted`. Says how many there were. Who and why are recorded.
    ///
    /// # Errors
    /// `Usage` for a bad name, `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Dropping the future may leave some holders evicted and some not.
    pub async fn evict(&self, name: impl AsRef<str>, by: &str, reason: &str) -> Result<usize> {
        let name = Name::new(name)?;
        let mut evicted = 0;
        for holder in self.engine.queue(&name).await?.holders() {
            if self.evict_claim(&name, holder.id, by, reason).await? {
                evicted += 1;
            }
        }
        Ok(evicted)
    }

    /// Evicts one claim and says whether it was still there.
    ///
    /// # Errors
    /// As for [`evict`](Self::evict).
    ///
    /// # Cancel safety
    /// Dropping the future may leave the claim evicted or not.
    pub async fn evict_claim(
        &self,
        name: &Name,
        id: TicketId,
        by: &str,
        reason: &str,
    ) -> Result<bool> {
        let claim = ClaimRef {
            name: name.clone(),
            id,
        };
        let cause = Cause::Evicted { by, reason };
        Ok(self.engine.withdraw(&claim, cause).await? == Withdrawn::Removed)
    }
}
