//! `mode=session`: locks that belong to connections.
//!
//! A lock is a session-level advisory lock of the server. One main connection
//! holds what was free when it was asked for, and is the lease; whoever has to
//! wait does so in a side connection, which then holds what it got. The server
//! ends a connection that is silent for the ttl. Each step is in
//! `docs/stores/postgres.md`.

mod claims;
mod ending;
mod inspect;
mod line;
mod open;
mod proof;
mod renewal;
mod requests;
mod watcher;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use self::line::Line;
use self::open::{Inquiry, OpenLease};
use self::watcher::{Rounds, Watcher};
use super::config::Mode;
use super::ears::{Connection, channel};
use super::fault::{code, fault};
use super::pool::Pool;
use super::renewal::whole_millis;
use super::text::{identifier, lease as lease_id, number, quoted};
use super::{TOKENS_PER_GRANT, layout, lock};
use crate::clock::{Moment, boot_time};
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, LeaseId, Owner, Renewal, Standing, Ticket, Watch, Withdrawn,
};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::promises::{Freed, Grade, Promises, Reach};
use crate::random::{random_u64, random_u128};

/// How long a connection may take, and an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// What a statement of the main connection may take in any case.
const SHORTEST_STATEMENT: Duration = Duration::from_millis(500);

/// How long the main connection may take to give everything back before it is
/// ended.
const SHORTEST_CLOSING: Duration = Duration::from_millis(50);
const LONGEST_CLOSING: Duration = Duration::from_secs(2);

/// Locks that belong to connections.
pub(super) struct AdvisoryEngine {
    pool: Pool,
    /// How many side connections a session has at most.
    most_aside: usize,
    /// The schema, quoted.
    schema: String,
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
}

impl AdvisoryEngine {
    pub(super) async fn start(pool: Pool, schema: &str, most_aside: usize) -> Result<Self> {
        layout::prepare(&pool, schema, Mode::Session).await?;
        Ok(Self {
            pool,
            most_aside,
            schema: identifier(schema),
            leases: Mutex::default(),
        })
    }

    fn refusal(&self, kind: ErrorKind, doing: String, why: &str) -> Error {
        Error::new(kind, doing, why).on(&*self.pool.label)
    }

    /// A lease that is open.
    fn lease(&self, id: LeaseId) -> Option<Arc<OpenLease>> {
        let open = lock(&self.leases).get(&id).cloned();
        open.filter(|open| !open.is_closed())
    }

    fn open_leases(&self) -> Vec<Arc<OpenLease>> {
        lock(&self.leases).values().cloned().collect()
    }

    /// Makes a connection that can hold locks; the main one unless it is for
    /// somebody who watches already. Also says the last token that was drawn.
    async fn enlist(
        &self,
        lease: Lease,
        owner: &Owner,
        watcher: Option<&Arc<Watcher>>,
    ) -> Result<(Line, u64)> {
        match timeout(LIMIT, self.enlist_now(lease, owner, watcher)).await {
            Ok(made) => made,
            Err(_) => {
                let why = "the server does not answer";
                let error = self.refusal(ErrorKind::Unavailable, DOING.into(), why);
                Err(error.effect_is(Effect::Unknown))
            }
        }
    }

    async fn enlist_now(
        &self,
        lease: Lease,
        owner: &Owner,
        watcher: Option<&Arc<Watcher>>,
    ) -> Result<(Line, u64)> {
        let mut connection = match Connection::open(&self.pool.options()).await {
            Ok(connection) => connection,
            // A setting that comes with the connection is refused.
            Err(error) if code(&error) == Some("08P01") => return Err(self.pooled()),
            Err(error) => return Err(fault(error, DOING.into(), &self.pool.label)),
        };
        if !connection.is_direct().await {
            return Err(self.pooled());
        }
        let is_main = watcher.is_none();
        if is_main && !connection.listen(&[lease.id]).await {
            let why = format!("cannot listen on {}", channel(lease.id));
            return Err(self.refusal(ErrorKind::Unavailable, DOING.into(), &why));
        }
        let key = random_u64().cast_signed();
        let line = Line::new(key, connection, watcher.cloned().unwrap_or_default());
        // While a statement runs the connection is not idle and the server does
        // not end it. So none may wait for a standby, whose counter is lifted by
        // its promotion anyway, and only a wait may last.
        let longest = match is_main {
            true => (lease.ttl / 3).max(SHORTEST_STATEMENT),
            false => Duration::ZERO,
        };
        let settings = format!(
            "set session characteristics as transaction isolation level read committed; \
             set synchronous_commit = local; set lock_timeout = 0; set statement_timeout = {}; \
             set idle_session_timeout = {}",
            whole_millis(longest),
            whole_millis(lease.ttl)
        );
        let text = format!(
            "select * from {}.enlist({key}, {}, {is_main}, {}, {}, {}, {})",
            self.schema,
            lease_id(lease.id),
            whole_millis(lease.ttl),
            quoted(owner.host()),
            owner.pid(),
            quoted(owner.label()),
        );
        let failed = |error| fault(error, DOING.into(), &self.pool.label);
        line.run(settings).await.map_err(failed)?;
        let rows = line.run(text).await.map_err(failed)?;
        let row = rows.first();
        let read = row.and_then(|row| Some((number(row, 0)?, number(row, 1)?, number(row, 2)?)));
        // Only now: if this is another server than before, or one that crashed, the
        // counter has been lifted, and that is on disk. So tokens that a crash forgets
        // never come again, and nobody has to wait until they are on disk.
        let settings = "set synchronous_commit = off".into();
        line.run(settings).await.map_err(failed)?;
        let (pid, last, seed) =
            read.ok_or_else(|| super::answer::strange(DOING.into(), &self.pool.label))?;
        Ok((line.known(pid, seed), last))
    }

    /// Whether a connection gets through to the server itself.
    async fn reaches_the_server(&self) -> bool {
        let options = self.pool.options();
        let asking = async {
            Connection::open(&options)
                .await
                .ok()?
                .is_direct()
                .await
                .then_some(())
        };
        matches!(timeout(LIMIT, asking).await, Ok(Some(())))
    }

    fn pooled(&self) -> Error {
        let why = "mode=session needs connections of its own, and there is a pooler before the \
                   server: name the server itself in the URL, or leave mode=session out";
        self.refusal(ErrorKind::Config, DOING.into(), why)
    }

    /// A message on a lease's channel: `renew`, or `show` with a request and
    /// maybe a name. Says whether what is held should be looked at.
    fn hear(open: &OpenLease, message: &str) -> bool {
        let mut words = message.splitn(3, ' ');
        match (words.next(), words.next()) {
            (Some("renew"), _) => {
                open.is_doubted.store(true, Ordering::Release);
                true
            }
            (Some("show"), Some(request)) => {
                lock(&open.inquiries).push(Inquiry {
                    request: request.to_owned(),
                    name: words.next().map(str::to_owned),
                });
                false
            }
            _ => false,
        }
    }
}

const DOING: &str = "open a session";

/// A lease that is being closed. Whoever closes it tries again for a ttl; then
/// it is forgotten in any case, and its connections with it.
struct Closing<'a> {
    engine: &'a AdvisoryEngine,
    lease: Lease,
    since: Moment,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        // His count began a moment before ours.
        let nearly_all = self.lease.ttl * 9 / 10;
        if boot_time().since(self.since) >= nearly_all {
            lock(&self.engine.leases).remove(&self.lease.id);
        }
    }
}

#[async_trait]
impl Engine for AdvisoryEngine {
    fn promises(&self) -> Promises {
        Promises {
            fair: true,
            fence: Grade::Ordered,
            tokens_per_grant: TOKENS_PER_GRANT,
            crash: Freed::AtOnce,
            ..Promises::least(Reach::Network)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let lease = Lease {
            id: LeaseId(random_u128()),
            ttl,
        };
        // Says at once what is wrong with a server that is not there.
        self.pool.ask("select 1", || DOING.into()).await?;
        let (line, last) = self.enlist(lease, owner, None).await?;
        let watcher = line.watcher();
        let open = OpenLease::new(lease, owner.clone(), line, watcher, self.most_aside, last);
        lock(&self.leases).insert(lease.id, Arc::new(open));
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        renewal::renew(self, lease).await
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let open = lock(&self.leases).get(&lease.id).cloned();
        let Some(open) = open else {
            return Ok(());
        };
        let _closing = Closing {
            engine: self,
            lease: *lease,
            since: open.close(),
        };
        open.main.close();
        let mut lines = open.lines_aside();
        let unlocking = open
            .main
            .run_urgent("select pg_advisory_unlock_all()".into());
        let limit = (lease.ttl / 12).clamp(SHORTEST_CLOSING, LONGEST_CLOSING);
        if !matches!(timeout(limit, unlocking).await, Ok(Ok(_))) {
            lines.push(open.main.clone());
        }
        if !lines.is_empty() {
            ending::finish(self, &open, &lines).await?;
        }
        lock(&self.leases).remove(&lease.id);
        for mine in open.claims() {
            mine.waiting.lock().await.take();
        }
        open.drop_idle();
        Ok(())
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.lease(lease.id) else {
            return std::future::pending().await;
        };
        let mut answering = std::pin::pin!(inspect::answer(self, &open));
        let mut rounds = Rounds::of(&open.watcher);
        loop {
            let news = tokio::select! {
                biased;
                news = std::future::poll_fn(|context| {
                    rounds.poll(context, |context| open.poll_news(context))
                }) => news,
                () = &mut answering => return,
            };
            match news {
                Some(message) if !Self::hear(&open, &message) => {}
                _ => return,
            }
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        claims::enqueue(self, ticket).await
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        claims::wait(self, ticket).await
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        match cause {
            Cause::Ours => claims::withdraw(self, claim).await,
            Cause::Evicted { by, reason } => inspect::evict(self, claim, by, reason).await,
        }
    }
}

impl fmt::Debug for AdvisoryEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdvisoryEngine({:?})", self.pool)
    }
}
