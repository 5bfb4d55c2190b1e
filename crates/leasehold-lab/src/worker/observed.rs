//! An engine that tells what the store answers, and changes nothing: when a claim
//! got its place in the queue, when it held, for how long the store promised to
//! keep it, and when it was asked to take it away. Who was first, and whom the
//! store let in, cannot be known from outside of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::engine::{
    Cause, ClaimRef, Engine, Finding, GoneClaim, Inspect, Lease, Owner, Promises, Queue, Renewal,
    Standing, Ticket, TicketId, Watch, Withdrawn,
};
use leasehold::{Name, Result};

use super::tell;
use crate::history::{Event, Moment, now};

pub(super) fn observed(inner: Arc<dyn Engine>, by: &str) -> Arc<dyn Engine> {
    Arc::new(Observed {
        inner,
        by: by.to_owned(),
        known: Mutex::default(),
    })
}

#[derive(Debug)]
struct Observed {
    inner: Arc<dyn Engine>,
    by: String,
    known: Mutex<Known>,
}

/// What the store has answered so far.
#[derive(Debug, Default)]
struct Known {
    /// The holders of the claims that hold.
    holders: BTreeMap<TicketId, u64>,
    /// Until when the lease is kept: counted from when a request was sent.
    until: Moment,
}

impl Observed {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        tell(&self.by, event);
    }

    fn stands(&self, ticket: &Ticket, standing: Standing) -> Standing {
        if let Standing::Held { token } = standing {
            let mut known = self.known();
            known.holders.insert(ticket.claim.id, ticket.holder);
            self.tell(Event::Stands {
                name: ticket.claim.name.to_string(),
                holder: ticket.holder,
                token: token.get(),
                until: known.until,
            });
        }
        standing
    }

    /// The lease is kept, but not these claims.
    fn keeps(&self, until: Moment, gone: &[GoneClaim]) {
        let mut known = self.known();
        known.until = known.until.max(until);
        known
            .holders
            .retain(|id, _| !gone.iter().any(|it| it.id == *id));
        let holders: Vec<_> = known.holders.values().copied().collect();
        if !holders.is_empty() {
            self.tell(Event::Keeps { holders, until });
        }
    }
}

fn after(sent: Moment, ttl: Duration) -> Moment {
    sent.saturating_add(u64::try_from(ttl.as_nanos()).unwrap_or(Moment::MAX))
}

#[async_trait]
impl Engine for Observed {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let sent = now();
        let lease = self.inner.open(owner, ttl).await?;
        self.known().until = after(sent, lease.ttl);
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        let sent = now();
        let renewal = self.inner.renew(lease).await?;
        match &renewal {
            Renewal::Renewed { gone } => self.keeps(after(sent, lease.ttl), gone),
            // What was promised before stays promised.
            Renewal::NotRenewed { .. } | Renewal::LeaseGone => {}
        }
        Ok(renewal)
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let holders = std::mem::take(&mut self.known().holders);
        for holder in holders.into_values() {
            self.tell(Event::Yields { holder });
        }
        self.inner.close(lease).await
    }

    async fn listen(&self, lease: &Lease) {
        self.inner.listen(lease).await;
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let standing = self.inner.enqueue(ticket).await?;
        let waits = matches!(standing, Standing::Waiting { .. });
        self.tell(Event::Queued { waits });
        Ok(self.stands(ticket, standing))
    }

    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        let standing = self.inner.wait(ticket, watch).await?;
        Ok(self.stands(ticket, standing))
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        // Before it is sent: from then on nobody can say that it stands.
        let holder = self.known().holders.remove(&claim.id);
        if let Some(holder) = holder {
            self.tell(Event::Yields { holder });
        }
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
