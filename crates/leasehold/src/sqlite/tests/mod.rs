//! The engine on real files: several engines on one store stand for several
//! processes, because each has its own connection and its own pipes.

mod crash;
mod files;
mod order;
mod people;
mod repeat;
mod stamps;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use super::{SqliteConfig, SqliteEngine};
use crate::engine::{Cause, ClaimRef, Engine, Lease, Owner, Standing, Ticket, TicketId, Withdrawn};
use crate::fence::Token;
use crate::name::Name;
use crate::random::{random_u64, random_u128};

/// Far longer than anything here takes; reached only when a test fails.
const DEADLINE: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(60);

/// A process that is being started has all our pipes open for a moment, and
/// keeps alive what another test takes for killed. So it is started alone.
static STARTING: RwLock<()> = RwLock::new(());

struct Bench(
    tempfile::TempDir,
    #[expect(dead_code, reason = "kept for as long as the test runs")] Box<dyn Any>,
);

impl Bench {
    fn new() -> Self {
        let others = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        Self(tempfile::tempdir().unwrap(), Box::new(others))
    }

    /// For a test that starts a process.
    fn alone() -> Self {
        let nobody = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        Self(tempfile::tempdir().unwrap(), Box::new(nobody))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    async fn party(&self) -> Party {
        Party::join(&self.path(), TTL).await
    }
}

async fn connect(path: &Path) -> crate::Result<SqliteEngine> {
    let path = path.to_owned();
    SqliteEngine::connect(SqliteConfig { path }).await
}

async fn connect_in_boot(path: &Path, boot: &str) -> crate::Result<SqliteEngine> {
    let path = path.to_owned();
    SqliteEngine::connect_in_boot(SqliteConfig { path }, Some(boot.into())).await
}

/// One session on an engine of its own.
#[derive(Debug)]
struct Party {
    engine: SqliteEngine,
    lease: Lease,
}

impl Party {
    async fn join(path: &Path, ttl: Duration) -> Self {
        Self::on(connect(path).await.unwrap(), ttl).await
    }

    async fn on(engine: SqliteEngine, ttl: Duration) -> Self {
        let owner = Owner::new("test");
        let lease = engine.open(&owner, ttl).await.unwrap();
        Self { engine, lease }
    }

    fn ticket(&self, name: &str) -> Ticket {
        self.ticket_for(name, 1, 1)
    }

    fn ticket_for(&self, name: &str, weight: u32, capacity: u32) -> Ticket {
        Ticket {
            claim: ClaimRef {
                name: Name::new(name).unwrap(),
                id: TicketId(random_u128()),
            },
            lease: self.lease.id,
            holder: random_u64(),
            capacity,
            weight,
            waits: true,
            label: None,
        }
    }

    /// Enqueues and says the token if the lock is held at once.
    async fn lock(&self, ticket: &Ticket) -> Option<Token> {
        match self.engine.enqueue(ticket).await.unwrap() {
            Standing::Held { token } => Some(token),
            Standing::Waiting { .. } => None,
            other => panic!("{other:?}"),
        }
    }

    /// Waits as a session does: listening all the while.
    async fn wait(&self, ticket: &Ticket) -> Standing {
        let listening = async {
            loop {
                self.engine.listen(&self.lease).await;
            }
        };
        let waiting = async {
            let mut known = crate::rule::Watch::Any;
            loop {
                match self.engine.wait(ticket, known).await.unwrap() {
                    Standing::Waiting { watch, .. } => known = watch,
                    standing => return standing,
                }
            }
        };
        let either = async {
            tokio::select! {
                () = listening => unreachable!(),
                standing = waiting => standing,
            }
        };
        tokio::time::timeout(DEADLINE, either)
            .await
            .expect("the wait ends")
    }

    async fn release(&self, ticket: &Ticket) -> Withdrawn {
        let withdraw = self.engine.withdraw(&ticket.claim, Cause::Ours);
        withdraw.await.unwrap()
    }
}

fn token(standing: Standing) -> Token {
    match standing {
        Standing::Held { token } => token,
        other => panic!("{other:?}"),
    }
}
