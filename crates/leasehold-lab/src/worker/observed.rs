//! An engine that tells when the store has put a claim into the queue, and
//! changes nothing. Who was first cannot be known from outside of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold::engine::{
    Cause, ClaimRef, Engine, Finding, Inspect, Lease, Owner, Promises, Queue, Renewal, Standing,
    Ticket, Watch, Withdrawn,
};
use leasehold::{Name, Result};

use super::tell;
use crate::history::Event;

pub(super) fn observed(inner: Arc<dyn Engine>, by: &str) -> Arc<dyn Engine> {
    let by = by.to_owned();
    Arc::new(Observed { inner, by })
}

#[derive(Debug)]
struct Observed {
    inner: Arc<dyn Engine>,
    by: String,
}

#[async_trait]
impl Engine for Observed {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        self.inner.open(owner, ttl).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        self.inner.renew(lease).await
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        self.inner.close(lease).await
    }

    async fn listen(&self, lease: &Lease) {
        self.inner.listen(lease).await;
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let standing = self.inner.enqueue(ticket).await?;
        let waits = matches!(standing, Standing::Waiting { .. });
        tell(&self.by, Event::Queued { waits });
        Ok(standing)
    }

    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        self.inner.wait(ticket, watch).await
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        self.inner.withdraw(claim, cause).await
    }
}

#[async_trait]
impl Inspect for Observed {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        self.inner.queue(name).await
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        self.inner.names(prefix).await
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        self.inner.examine().await
    }
}
