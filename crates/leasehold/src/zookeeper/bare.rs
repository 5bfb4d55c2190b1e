//! The barest lock that ZooKeeper gives through the same client: one ephemeral
//! node is made, and deleted. No queue, no watchdog. `leasehold bench` measures
//! ours by it.

use std::sync::Arc;
use std::time::Duration;

use super::session::Session;
use super::wire::{Mode, Request};
use super::{Layout, Refusal, ZookeeperConfig, ZookeeperEngine};
use crate::clock::boot_time;
use crate::engine::{Cause, ClaimRef, Engine, Owner, Ticket, TicketId};
use crate::error::Result;
use crate::name::Name;
use crate::random::random_u128;

const TIMEOUT: Duration = Duration::from_secs(40);

/// A session that nobody keeps but the requests themselves.
#[derive(Debug)]
pub struct BareZookeeper {
    engine: ZookeeperEngine,
    session: Session,
}

impl BareZookeeper {
    pub(crate) async fn connect(config: &ZookeeperConfig) -> Result<Self> {
        let engine = ZookeeperEngine::connect(config).await?;
        let session = Session::open(&Arc::new(config.clone()), TIMEOUT).await;
        let session = session.map_err(|why| why.fault("measure", &engine.label))?;
        Ok(Self { engine, session })
    }

    /// Takes the lock and gives it back.
    ///
    /// # Errors
    /// Whatever the server says; `Unavailable` if somebody has the lock.
    ///
    /// # Cancel safety
    /// The lock may stay taken until the session ends.
    pub async fn cycle(&self, name: &str) -> Result<()> {
        let path = format!("{}/bare-{name}", self.engine.config.chroot);
        let cycled = async {
            let create = self.create(path.clone(), Mode::Ephemeral);
            self.session.ask_one(create).await?;
            self.session.ask_one(Request::Delete { path }).await
        };
        let cycled = cycled.await;
        cycled.map(drop).map_err(|why| self.fault(why))
    }

    /// Puts so many claims into a mutex's queue that wait for ever.
    ///
    /// # Errors
    /// Whatever the server says.
    ///
    /// # Cancel safety
    /// Some of the claims may be there.
    pub async fn crowd(&self, name: &str, count: u32) -> Result<()> {
        let parent = self.engine.paths.lock(&Name::new(name)?);
        let made = self.engine.make_all(&self.session, &parent).await;
        made.map_err(|why| self.fault(why))?;
        let marker = match self.engine.config.layout {
            Layout::Curator => "-lock-",
            Layout::Kazoo => "__lock__",
        };
        let numbers: Vec<u32> = (0..count).collect();
        for batch in numbers.chunks(100) {
            let create = |_: &u32| {
                let path = format!("{parent}/{:032x}{marker}", random_u128());
                self.create(path, Mode::EphemeralSequential)
            };
            let asked = self.session.ask(batch.iter().map(create).collect()).await;
            asked.map_err(|why| self.fault(why))?;
        }
        Ok(())
    }

    /// How long our own engine takes to put a claim into that queue and to take
    /// it out, as a median.
    ///
    /// # Errors
    /// Whatever the server says.
    ///
    /// # Cancel safety
    /// A claim may be left until its session ends.
    pub async fn enqueue_p50(&self, name: &str, time: Duration) -> Result<Duration> {
        let engine = ZookeeperEngine::connect(&self.engine.config).await?;
        let lease = engine.open(&Owner::new("bench"), TIMEOUT).await?;
        let (start, mut samples) = (boot_time(), Vec::new());
        while boot_time().since(start) < time {
            let ticket = Ticket {
                claim: ClaimRef {
                    name: Name::new(name)?,
                    id: TicketId(random_u128()),
                },
                lease: lease.id,
                holder: 0,
                capacity: 1,
                weight: 1,
                waits: true,
                label: None,
            };
            let began = boot_time();
            engine.enqueue(&ticket).await?;
            engine.withdraw(&ticket.claim, Cause::Ours).await?;
            samples.push(boot_time().since(began));
        }
        engine.close(&lease).await?;
        samples.sort_unstable();
        Ok(samples.get(samples.len() / 2).copied().unwrap_or_default())
    }

    /// Ends the session and with it the crowd.
    ///
    /// # Errors
    /// Whatever the server says.
    ///
    /// # Cancel safety
    /// The session may be left until the servers end it.
    pub async fn close(&self) -> Result<()> {
        let closed = self.session.ask_one(Request::Close).await;
        closed.map(drop).map_err(|why| self.fault(why))
    }

    fn create(&self, path: String, mode: Mode) -> Request {
        Request::Create {
            path,
            data: Vec::new(),
            mode,
            is_private: self.engine.config.user.is_some(),
        }
    }

    fn fault(&self, why: Refusal) -> crate::error::Error {
        why.fault("measure", &self.engine.label)
    }
}
