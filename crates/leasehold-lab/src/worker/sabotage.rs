//! Engines that are wrong on purpose, over any real store. A lab that does not
//! find them out is broken itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use leasehold::conformance::Bench;
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
    /// The store keeps a lease for a third of the time that it says.
    EarlyExpiry,
    /// Tokens do not grow.
    StuckToken,
    /// A release says that it was done and does nothing.
    LazyRelease,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::LateWatchdog,
        Self::NoOwnerCheck,
        Self::EarlyExpiry,
        Self::StuckToken,
        Self::LazyRelease,
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
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|sabotage| sabotage.name() == name)
    }

    /// An engine on this store that is wrong in this way.
    pub(super) async fn on(self, url: &str) -> Result<Arc<dyn Engine>> {
        let inner = Bench::new(url).await?.engine().await;
        Ok(Arc::new(Sabotaged {
            inner,
            sabotage: self,
        }))
    }
}

#[derive(Debug)]
struct Sabotaged {
    inner: Arc<dyn Engine>,
    sabotage: Sabotage,
}

impl Sabotaged {
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
            Sabotage::EarlyExpiry => ttl / 3,
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
        Ok(self.standing(self.inner.enqueue(ticket).await?))
    }

    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        Ok(self.standing(self.inner.wait(ticket, watch).await?))
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
