//! How a lease begins and ends. The nodes know nothing of it.

use std::time::Duration;

use futures_util::future::join_all;

use super::claims::OpenLease;
use super::{RedlockEngine, UNHURRIED, founding, owed};
use crate::engine::{Lease, LeaseId, Owner};
use crate::error::Result;
use crate::random::random_u128;
use crate::redis::keys::inbox;

impl RedlockEngine {
    /// Begins a lease.
    pub(super) async fn start(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let lease = Lease {
            id: LeaseId(random_u128()),
            ttl,
        };
        let limit = self.config.limit(ttl);
        if self.config.tokens && !founding::is_settled(&self.nodes, limit).await {
            let limit = limit.max(UNHURRIED / 2).min(ttl / 6);
            founding::settle(&self.nodes, self.config.quarantine, limit).await;
        }
        self.nodes.learn_times(limit).await?;
        let inbox = inbox(lease.id);
        let subscribing = self.nodes.subscribe(&inbox, limit);
        tokio::join!(subscribing, self.nodes.load_scripts(limit));
        self.claims.add_lease(OpenLease::new(lease, owner, limit));
        Ok(lease)
    }

    /// Ends a lease and tells the nodes.
    pub(super) async fn end(&self, lease: &Lease) -> Result<()> {
        self.claims.close_lease(lease.id);
        let limit = self.config.limit(lease.ttl);
        let claims = self.claims.of(lease.id);
        let leaving = claims.iter().map(|mine| async {
            self.give_back(mine, limit).await?;
            self.claims.forget(mine.claim.id);
            Ok(())
        });
        let inbox = inbox(lease.id);
        let unsubscribing = self.nodes.unsubscribe(&inbox, limit);
        let (left, ()): (Vec<Result<()>>, _) = tokio::join!(join_all(leaving), unsubscribing);
        // Nobody does it later: one last time, for those that are there.
        let owing = join_all(self.nodes.all.iter().map(|node| async {
            node.wait_for_leftovers().await;
            owed::settle(&self.nodes, node).await;
        }));
        let _ = tokio::time::timeout(limit, owing).await;
        left.into_iter().collect()
    }
}
