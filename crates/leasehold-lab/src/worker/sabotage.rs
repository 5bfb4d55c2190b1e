//! Engines that are wrong on purpose, over any real store. A lab that does not
//! find them out is broken itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold::engine::{
    Cause, ClaimRef, Engine, Finding, Inspect, Lease, Owner, Promises, Queue, Renewal, Standing,
    Ticket, Watch, Withdrawn,
};
use leasehold::{Name, Result, Token};
use serde::{Deserialize, Serialize};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sabotage {
    /// Renewals never leave the process, and are said to be done.
    LateWatchdog,
    /// A release removes whoever holds.
    NoOwnerCheck,
    /// The store keeps a lease for a tenth of the time that it says.
    EarlyExpiry,
    /// Tokens do not grow.
    StuckToken,
    /// A release says that it was done and does nothing.
    LazyRelease,
    /// A claim that waits goes to the end of the queue again and again.
    LosesPlace,
    /// A semaphore has one permit more than it says.
    ExtraPermit,
    /// A release is done, and never comes back.
    HangingRelease,
    /// A release is done, and panics.
    CrashingRelease,
    /// Not the engine but the worker: it does not hear that it lost the lock.
    DeafWorker,
    /// Not the engine but the resource: it lets in whoever shows a fence.
    ResourceForgetsMark,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::LateWatchdog,
        Self::NoOwnerCheck,
        Self::EarlyExpiry,
        Self::StuckToken,
        Self::LazyRelease,
        Self::LosesPlace,
        Self::ExtraPermit,
        Self::HangingRelease,
        Self::CrashingRelease,
        Self::DeafWorker,
        Self::ResourceForgetsMark,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LateWatchdog => "late-watchdog",
            Self::NoOwnerCheck => "no-owner-check",
            Self::EarlyExpiry => "early-expiry",
            Self::StuckToken => "stuck-token",
            Self::LazyRelease => "lazy-release",
            Self::LosesPlace => "loses-place",
            Self::ExtraPermit => "extra-permit",
            Self::HangingRelease => "hanging-release",
            Self::CrashingRelease => "crashing-release",
            Self::DeafWorker => "deaf-worker",
            Self::ResourceForgetsMark => "resource-forgets-mark",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|sabotage| sabotage.name() == name)
    }

    /// This engine, wrong in this way.
    pub(super) fn on(self, inner: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::new(Sabotaged {
            inner,
            sabotage: self,
        })
    }
}

#[derive(Debug)]
struct Sabotaged {
    inner: Arc<dyn Engine>,
    sabotage: Sabotage,
}

impl Sabotaged {
    fn ticket(&self, ticket: &Ticket) -> Ticket {
        let mut ticket = ticket.clone();
        if self.sabotage == Sabotage::ExtraPermit {
            ticket.capacity = ticket.capacity.saturating_add(1);
        }
        ticket
    }

    /// Goes to the end of the queue whenever it has waited for a while.
    async fn wait_without_place(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        let waiting = self.inner.wait(ticket, watch);
        match tokio::time::timeout(Duration::from_millis(50), waiting).await {
            Ok(standing) => standing,
            Err(_) => {
                self.inner.withdraw(&ticket.claim, Cause::Ours).await?;
                self.inner.enqueue(ticket).await
            }
        }
    }

    fn standing(&self, standing: Standing) -> Standing {
        match (standing, self.sabotage) {
            (Standing::Held { .. }, Sabotage::StuckToken) => Standing::Held {
                token: Token::new(7),
            },
            (standing, _) => standing,
        }
    }
}

#[async_trait]
impl Engine for Sabotaged {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let kept = match self.sabotage {
            Sabotage::EarlyExpiry => ttl / 10,
            _ => ttl,
        };
        let lease = self.inner.open(owner, kept).await?;
        Ok(Lease { ttl, ..lease })
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        match self.sabotage {
            Sabotage::LateWatchdog => Ok(Renewal::Renewed { gone: Vec::new() }),
            _ => self.inner.renew(lease).await,
        }
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        self.inner.close(lease).await
    }

    async fn listen(&self, lease: &Lease) {
        match self.sabotage {
            // What the store tells would give it away.
            Sabotage::LateWatchdog | Sabotage::EarlyExpiry => std::future::pending().await,
            _ => self.inner.listen(lease).await,
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let ticket = self.ticket(ticket);
        Ok(self.standing(self.inner.enqueue(&ticket).await?))
    }

    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        let ticket = self.ticket(ticket);
        if self.sabotage == Sabotage::LosesPlace {
            return self.wait_without_place(&ticket, watch).await;
        }
        Ok(self.standing(self.inner.wait(&ticket, watch).await?))
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        match self.sabotage {
            Sabotage::LazyRelease => Ok(Withdrawn::Removed),
            Sabotage::NoOwnerCheck => {
                let queue = self.inner.queue(&claim.name).await?;
                let holder = queue.holders().next().map_or(claim.id, |holder| holder.id);
                let name = claim.name.clone();
                self.inner
                    .withdraw(&ClaimRef { name, id: holder }, cause)
                    .await
            }
            Sabotage::HangingRelease => {
                self.inner.withdraw(claim, cause).await?;
                // A request that takes too long is given up; a thread that does
                // not come back cannot be.
                loop {
                    std::thread::park();
                }
            }
            Sabotage::CrashingRelease => {
                self.inner.withdraw(claim, cause).await?;
                panic!("a release that crashes, on purpose");
            }
            _ => self.inner.withdraw(claim, cause).await,
        }
    }
}

#[async_trait]
impl Inspect for Sabotaged {
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
