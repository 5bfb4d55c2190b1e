//! Engines that are wrong on purpose: a simulation that does not find them out
//! is broken itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::engine::{
    Cause, ClaimRef, Engine, Finding, Inspect, Lease, LeaseId, Mark, Memo, Noted, Owner, Promises,
    Queue, Reading, Renewal, Standing, Ticket, Watch, Withdrawn,
};
use leasehold::{Memory, Name, Result, Token};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// A withdrawal removes whichever claim is the first.
    NoOwnerCheck,
    /// The store keeps a lease for half of the time that it promises.
    EarlyExpiry,
    /// A renewal brings back a lease that the store has given up.
    Resurrection,
    /// Tokens do not grow.
    StuckToken,
    /// A withdrawal says that it was done and does nothing.
    LazyWithdraw,
}

#[derive(Debug)]
struct Broken {
    store: Arc<Memory>,
    defect: Defect,
    /// The lease that stands in for one that was given up.
    revived: Mutex<HashMap<LeaseId, (Owner, Lease)>>,
}

pub(crate) fn no_owner_check(store: Arc<Memory>) -> Arc<dyn Engine> {
    Broken::on(store, Defect::NoOwnerCheck)
}

pub(crate) fn early_expiry(store: Arc<Memory>) -> Arc<dyn Engine> {
    Broken::on(store, Defect::EarlyExpiry)
}

pub(crate) fn resurrection(store: Arc<Memory>) -> Arc<dyn Engine> {
    Broken::on(store, Defect::Resurrection)
}

pub(crate) fn stuck_token(store: Arc<Memory>) -> Arc<dyn Engine> {
    Broken::on(store, Defect::StuckToken)
}

pub(crate) fn lazy_withdraw(store: Arc<Memory>) -> Arc<dyn Engine> {
    Broken::on(store, Defect::LazyWithdraw)
}

impl Broken {
    fn on(store: Arc<Memory>, defect: Defect) -> Arc<dyn Engine> {
        Arc::new(Self {
            store,
            defect,
            revived: Mutex::default(),
        })
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// The lease as the store knows it.
    fn present(&self, id: LeaseId) -> LeaseId {
        let revived = self.revived.lock().unwrap();
        revived.get(&id).map_or(id, |(_, lease)| lease.id)
    }

    fn standing(&self, standing: Standing) -> Standing {
        match standing {
            Standing::Held { token } if self.has(Defect::StuckToken) => Standing::Held {
                // Orders are multiples of 32; every other grant repeats one.
                token: Token::new(token.get() & !32),
            },
            standing => standing,
        }
    }
}

#[async_trait]
impl Engine for Broken {
    fn promises(&self) -> Promises {
        self.store.promises()
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let kept = if self.has(Defect::EarlyExpiry) {
            ttl / 2
        } else {
            ttl
        };
        let lease = self.store.open(owner, kept).await?;
        let seen = Lease { ttl, ..lease };
        self.revived
            .lock()
            .unwrap()
            .insert(lease.id, (owner.clone(), seen));
        Ok(seen)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        let present = Lease {
            id: self.present(lease.id),
            ttl: lease.ttl,
        };
        let renewal = self.store.renew(&present).await?;
        if !self.has(Defect::Resurrection) || renewal != Renewal::LeaseGone {
            return Ok(renewal);
        }
        let owner = self.revived.lock().unwrap()[&lease.id].0.clone();
        let revived = self.store.open(&owner, lease.ttl).await?;
        self.revived
            .lock()
            .unwrap()
            .insert(lease.id, (owner, revived));
        Ok(Renewal::Renewed { gone: Vec::new() })
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let present = Lease {
            id: self.present(lease.id),
            ttl: lease.ttl,
        };
        self.store.close(&present).await
    }

    async fn listen(&self, lease: &Lease) {
        self.store.listen(lease).await;
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let lease = self.present(ticket.lease);
        let ticket = Ticket {
            lease,
            ..ticket.clone()
        };
        Ok(self.standing(self.store.enqueue(&ticket).await?))
    }

    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        Ok(self.standing(self.store.wait(ticket, watch).await?))
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        let mut claim = claim.clone();
        if self.has(Defect::LazyWithdraw) {
            return Ok(Withdrawn::Removed);
        }
        if self.has(Defect::NoOwnerCheck)
            && let Some(first) = self.store.holders_of(&claim.name).first()
        {
            claim.id = *first;
        }
        self.store.withdraw(&claim, cause).await
    }

    async fn write_memo(&self, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
        let (mut claim, mut memo) = (claim.clone(), memo.clone());
        if self.has(Defect::NoOwnerCheck) {
            let queue = self.store.queue(&claim.name).await?;
            if let Some(first) = queue.holders().next() {
                claim.id = first.id;
                memo.token = first.token.unwrap_or(memo.token);
            }
        }
        self.store.write_memo(&claim, &memo).await
    }

    async fn write_memo_for(&self, claim: &ClaimRef, memo: &Memo, keep: Duration) -> Result<Noted> {
        self.store.write_memo_for(claim, memo, keep).await
    }

    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        self.store.read_memo(name).await
    }

    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        self.store.holders(name).await
    }

    async fn stamp(&self, lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        self.store.stamp(lease, name).await
    }
}

#[async_trait]
impl Inspect for Broken {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        self.store.queue(name).await
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        self.store.names(prefix).await
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        self.store.examine().await
    }
}
