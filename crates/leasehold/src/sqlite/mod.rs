//! The SQLite engine: one file, every process of one machine.
//!
//! A lock is a queue of rows, and one write transaction after another changes
//! it. A claim's order is drawn inside its transaction, so it is a token too.
//! Leases end on the boot clock, read inside the transaction that renews or
//! takes over; a reboot frees everything. Each session keeps a locked pipe open,
//! so the kernel tells those who wait when its process dies, and reads another
//! one, in which whoever lets a claim in writes a line. No thread, no polling
//! beyond twice a second in case a line was lost.
//! The layout and every step are in `docs/stores/sqlite.md`.

mod claims;
mod config;
mod database;
mod examine;
mod fault;
mod file;
mod inbox;
mod inspect;
mod layout;
mod live;
mod log;
mod memo;
mod queue;
mod sessions;
mod stamp;
mod standing;
#[cfg(test)]
mod tests;
mod waiting;
mod walk;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use self::claims::Breaker;
pub(crate) use self::config::SqliteConfig;
use self::database::{Doing, Store, open_store};
use self::inbox::{Message, lock};
use crate::engine::{
    Cause, ClaimRef, Engine, Finding, Inspect, Lease, LeaseId, Mark, Memo, Noted, Owner, Queue,
    Reading, Renewal, Standing, Ticket, Withdrawn,
};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::promises::{Freed, Grade, Promises, Reach};
use crate::random::random_u128;
use crate::rule::Watch;

/// An order is drawn in strides of this many tokens.
const TOKENS_PER_GRANT: u32 = 32;

/// Locks in a file of this machine.
#[derive(Debug)]
pub(crate) struct SqliteEngine {
    config: SqliteConfig,
    /// Replaced when the file was; all leases of the old one are gone then.
    store: Mutex<Arc<Store>>,
}

impl SqliteEngine {
    /// Opens the store, making it if it is missing.
    ///
    /// # Errors
    /// `Config` if the path cannot hold locks, `Denied` if we may not write
    /// there, `Unavailable` if the disk is full or fails.
    pub(crate) async fn connect(config: SqliteConfig) -> Result<Self> {
        Self::connect_in_boot(config, None).await
    }

    /// The same as if the kernel had this boot id.
    async fn connect_in_boot(config: SqliteConfig, boot: Option<String>) -> Result<Self> {
        let store = open_store(config.path.clone(), boot).await?;
        Ok(Self {
            config,
            store: Mutex::new(Arc::new(store)),
        })
    }

    fn store(&self) -> Arc<Store> {
        lock(&self.store).clone()
    }

    /// The store under the configured path, opened anew if another file is
    /// there now.
    async fn store_in_place(&self) -> Result<Arc<Store>> {
        let store = self.store();
        if store.is_in_place() {
            return Ok(store);
        }
        if store.has_lost_its_log() {
            let why = "somebody removed SQLite's -wal and -shm files while they were in use: \
                       restart all programs that use the store";
            let error = Error::new(ErrorKind::Unavailable, "use the store", why);
            return Err(error.on(store.label()));
        }
        let boot = Some(store.boot.clone());
        let anew = Arc::new(open_store(self.config.path.clone(), boot).await?);
        let mut current = lock(&self.store);
        // Another call may have done the same meanwhile and have leases there.
        if !current.is_in_place() {
            *current = anew;
        }
        Ok(current.clone())
    }
}

#[async_trait]
impl Engine for SqliteEngine {
    fn promises(&self) -> Promises {
        let mut promises = Promises::least(Reach::Machine);
        promises.fair = true;
        promises.rwlock = true;
        promises.semaphore = true;
        promises.fence = Grade::Ordered;
        promises.tokens_per_grant = TOKENS_PER_GRANT;
        promises.crash = Freed::AtOnce;
        promises.durable = true;
        promises.memo = true;
        promises.retention = true;
        promises.stamp = true;
        promises.stamp_word = true;
        promises
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let doing = Doing("open a session", None);
        let store = self.store_in_place().await?;
        store.run(doing, sessions::sweep).await?;
        let lease = Lease {
            id: LeaseId(random_u128()),
            ttl,
        };
        let files =
            sessions::make_files(&store, lease).map_err(|fault| store.error(doing, fault))?;
        let owner = owner.clone();
        let entered = store
            .run(doing, move |store, connection| {
                sessions::enter(store, connection, lease, &owner)
            })
            .await;
        // After an error the row may be there all the same. Without its pipe
        // locked it is dead, so it only has to be possible to find that out.
        entered.inspect_err(|error| {
            if error.effect() == crate::error::Effect::None {
                queue::remove_files(&store, lease.id);
            }
        })?;
        store.ours.add_lease(files);
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        let store = self.store();
        let lease = *lease;
        if !store.is_in_place() {
            // Our pipe keeps others from a new file until `close`, when all who
            // hold by this lease know that it is lost.
            return Ok(Renewal::LeaseGone);
        }
        let renewal = store
            .run(Doing("renew", None), move |store, connection| {
                sessions::renew(store, connection, lease)
            })
            .await?;
        Ok(match (renewal, store.ours.lease(lease.id)) {
            (Renewal::Renewed { .. }, Some(open)) => Renewal::Renewed {
                gone: std::mem::take(&mut lock(&open.gone)),
            },
            (renewal, _) => renewal,
        })
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let store = self.store();
        let id = lease.id;
        if !store.is_in_place() {
            // What is in the old file matters to nobody, and it may take no
            // writes. Letting go of our pipe makes way for a new one.
            queue::remove_files(&store, id);
            store.ours.drop_lease(id);
            return Ok(());
        }
        store
            .run(
                Doing("close the session", None),
                move |store, connection| sessions::close(store, connection, id),
            )
            .await?;
        store.ours.drop_lease(id);
        Ok(())
    }

    async fn listen(&self, lease: &Lease) {
        let store = self.store();
        let Some(open) = store.ours.lease(lease.id) else {
            // Nobody can tell us anything. Returning would ask for a renewal.
            return std::future::pending().await;
        };
        loop {
            let mut is_renewal_due = false;
            for message in open.receive().await {
                match message {
                    Message::Look(ticket) => store.ours.ring(ticket),
                    Message::Renew => is_renewal_due = true,
                }
            }
            if is_renewal_due {
                return;
            }
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let doing = Doing("enqueue", Some(&ticket.claim.name));
        let store = self.store();
        if ticket.weight == 0 || ticket.weight > ticket.capacity {
            let (weight, capacity) = (ticket.weight, ticket.capacity);
            let why =
                format!("weight {weight} of capacity {capacity}; allowed are 1 to {capacity}");
            let error = Error::new(
                ErrorKind::Usage,
                format!("enqueue {}", ticket.claim.name),
                why,
            );
            return Err(error.on(store.label()));
        }
        if !store.has_a_name() {
            return Ok(Standing::Gone);
        }
        let ticket = ticket.clone();
        store
            .run(doing, move |store, connection| {
                claims::enqueue(store, connection, &ticket)
            })
            .await
    }

    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        waiting::wait(&self.store(), ticket, watch).await
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        let store = self.store();
        let breaker = match cause {
            Cause::Ours => None,
            Cause::Evicted { by, reason } => Some(Breaker {
                by: by.to_owned(),
                reason: reason.to_owned(),
            }),
        };
        let doing = Doing("withdraw", Some(&claim.name));
        let claim = claim.clone();
        store
            .run(doing, move |store, connection| {
                claims::withdraw(store, connection, &claim, breaker.as_ref())
            })
            .await
    }

    async fn write_memo(&self, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
        memo::write(&self.store(), claim, memo, None).await
    }

    async fn write_memo_for(&self, claim: &ClaimRef, memo: &Memo, keep: Duration) -> Result<Noted> {
        memo::write(&self.store(), claim, memo, Some(keep)).await
    }

    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        let store = self.store_in_place().await?;
        let doing = Doing("read the memo of", Some(name));
        let name = name.clone();
        store
            .run(doing, move |store, connection| {
                memo::read(connection, &store.boot, name.as_str())
            })
            .await
    }

    async fn stamp(&self, _lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        let store = self.store_in_place().await?;
        let doing = Doing("stamp", Some(name));
        let name = name.clone();
        store
            .run(doing, move |store, connection| {
                stamp::stamp(store, connection, name.as_str())
            })
            .await
    }

    fn lifeline(&self, lease: &Lease) -> Option<std::os::fd::OwnedFd> {
        let open = self.store().ours.lease(lease.id)?;
        // A copy shares the lock of the original, so whoever inherits it keeps
        // the session alive.
        rustix::io::fcntl_dupfd_cloexec(&open.live, 3).ok()
    }
}

#[async_trait]
impl Inspect for SqliteEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let doing = Doing("look at", Some(name));
        let name = name.clone();
        let store = self.store_in_place().await?;
        store
            .run(doing, move |store, connection| {
                inspect::queue(store, connection, &name)
            })
            .await
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let prefix = prefix.to_owned();
        let store = self.store_in_place().await?;
        store
            .run(Doing("list locks", None), move |store, connection| {
                inspect::names(store, connection, &prefix)
            })
            .await
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let store = self.store_in_place().await?;
        store
            .run(Doing("examine the store", None), examine::examine)
            .await
    }
}
