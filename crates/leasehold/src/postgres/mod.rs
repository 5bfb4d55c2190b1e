//! The PostgreSQL engine: locks in the database that you already have.
//!
//! A lock is a queue of rows. Whoever changes it takes an advisory lock of its
//! name first, for the length of one short transaction, and draws the claim's
//! order only then; so the order is a token too. A lease is one row, renewed on
//! the server's clock. Every request is one call of a function of our schema and
//! one round trip. Whoever takes a claim out finds out who holds now and tells
//! that session through its own channel; a hand-over is two statements.
//! The layout and every step are in `docs/stores/postgres.md`.

mod advisory;
mod answer;
mod bare;
mod claims;
mod config;
mod ears;
mod fault;
mod fence;
mod inbox;
mod inspect;
mod layout;
mod memo;
mod pool;
mod renewal;
mod route;
mod text;
mod together;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
pub use sqlx_postgres::{PgPool, PgTransaction};

use self::advisory::AdvisoryEngine;
use self::answer::strange;
#[doc(hidden)]
pub use self::bare::{BareAdvisory, BarePostgres};
use self::config::Mode;
pub(crate) use self::config::{OPTIONS, PostgresConfig, Refusal, SCHEMES};
use self::ears::Ears;
pub use self::fence::fence;
use self::inbox::Inbox;
use self::pool::{Answer, Lane, Pool};
use self::renewal::whole_millis;
use self::text::{column, identifier, lease as lease_id, number, quoted};
use crate::clock::Clock;
use crate::config::{Config, Store};
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, LeaseId, Mark, Memo, Noted, Owner, Reading, Renewal, Standing,
    Ticket, Together, Watch, Withdrawn,
};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::promises::{Grade, Promises, Reach};
use crate::random::random_u128;
use crate::session::Session;

/// How many tokens one grant may be split into; `sql/tables.sql` knows it too.
const TOKENS_PER_GRANT: u32 = 32;

/// Makes a transaction that only reads wait for what every commit waits for, as an
/// expression: a server that was replaced and is cut off from its standbys then does
/// not answer. Where no commit waits for a standby it writes nothing.
const CONFIRM: &str = "case when current_setting('synchronous_standby_names') <> '' \
     then pg_logical_emit_message(true, 'leasehold', '') end";

/// Opens a session on a pool of your own. The options are those of a URL, such
/// as `ttl=5s&schema=locks`; they may be empty.
///
/// Requests take turns on the pool's connections. Beside it are made one more
/// connection that listens, and one or two that renew and release, so that a
/// pool of which all is in use costs no lock.
///
/// # Errors
/// As for [`connect`](crate::connect).
///
/// # Cancel safety
/// As for [`connect`](crate::connect).
pub async fn connect_with(pool: PgPool, options: &str) -> Result<Session> {
    let config = Config::parse(&format!("postgres://pool?{options}"))?;
    let Store::Postgres(postgres) = &config.store else {
        return Err(Error::new(ErrorKind::Config, "connect", "not PostgreSQL"));
    };
    let label = config::label(&[(*pool.connect_options()).clone()]);
    let pool = Pool::of_user(pool, label);
    let engine = start(pool, postgres).await?;
    let (settings, label) = (config.settings, config.label);
    Session::start(engine, "postgres", Clock::Boot, settings, label).await
}

/// What the engine needs in a database, as SQL for those who make tables by
/// hand. It may be run again. The schema is the one that the URL names.
///
/// # Errors
/// `Config` if the URL is not one of PostgreSQL.
pub fn schema(url: &str) -> Result<String> {
    match Config::parse(url)?.store {
        Store::Postgres(config) => {
            // All of it or nothing: it may be the wrong mode for that schema.
            let script = layout::script(&config.schema, config.mode);
            Ok(format!("begin;\n{script}\ncommit;\n"))
        }
        _ => {
            let why = "only postgres: has tables to make by hand";
            Err(Error::new(ErrorKind::Config, "print the schema", why))
        }
    }
}

/// The engine of the mode that the URL names, connected.
pub(crate) async fn connect(config: &PostgresConfig) -> Result<Arc<dyn Engine>> {
    config.tls.check_files(&config.label())?;
    let pool = Pool::new(config.route(), config.connections, config.label());
    start(pool, config).await
}

async fn start(pool: Pool, config: &PostgresConfig) -> Result<Arc<dyn Engine>> {
    Ok(match config.mode {
        Mode::Lease => Arc::new(PostgresEngine::start(pool, &config.schema).await?),
        Mode::Session => {
            let starting = AdvisoryEngine::start(pool, &config.schema, config.connections);
            Arc::new(starting.await?)
        }
    })
}

/// Locks in a PostgreSQL database.
#[derive(Debug)]
pub(crate) struct PostgresEngine {
    pool: Pool,
    ears: Ears,
    inbox: Inbox,
    /// The schema, quoted.
    schema: String,
    /// Which server was met last.
    server: Mutex<String>,
    has_memo: bool,
    has_stamps: bool,
}

impl PostgresEngine {
    /// Connects, looks whether the server fits, and makes the tables if they are
    /// missing.
    pub(crate) async fn connect(config: &PostgresConfig) -> Result<Self> {
        let pool = Pool::new(config.route(), config.connections, config.label());
        Self::start(pool, &config.schema).await
    }

    async fn start(pool: Pool, schema: &str) -> Result<Self> {
        let extras = layout::prepare(&pool, schema, Mode::Lease).await?;
        Ok(Self {
            has_memo: extras.memos,
            has_stamps: extras.stamps,
            ears: Ears::new(pool.route()),
            inbox: Inbox::default(),
            schema: identifier(schema),
            server: Mutex::default(),
            pool,
        })
    }

    /// Calls a function of our schema.
    async fn call(
        &self,
        lane: Lane,
        function: &str,
        arguments: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        let statement = format!("select * from {}.{function}({arguments})", self.schema);
        self.pool.ask_in(lane, &statement, doing).await
    }

    /// Calls a function of our schema that reads what somebody decides by.
    async fn call_to_read(
        &self,
        function: &str,
        arguments: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        let statement = format!(
            "select f.*, {CONFIRM} from {}.{function}({arguments}) f",
            self.schema
        );
        // Not beside releases: there they have one connection, and whoever looks on
        // may do so often.
        self.pool.ask_in(Lane::InLine, &statement, doing).await
    }

    /// Calls a function of our schema whose answer is read as one record, which
    /// is less work for the server.
    async fn call_for_record(
        &self,
        lane: Lane,
        function: &str,
        arguments: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        let statement = format!("select {}.{function}({arguments})", self.schema);
        self.pool.ask_in(lane, &statement, doing).await
    }

    /// The same for a function that changes the queue of this name, perhaps together
    /// with others. The name, a literal, is its first argument.
    async fn change(
        &self,
        lane: Lane,
        function: &str,
        name: &str,
        others: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        let call = format!("{}.{function}({name}, {others})", self.schema);
        self.pool.ask_together(lane, name, &call, doing).await
    }

    /// After a failover everything that is held is verified.
    fn meets(&self, server: &str) {
        let mut known = lock(&self.server);
        if *known == server {
            return;
        }
        if !known.is_empty() {
            tracing::warn!(%server, "another server or timeline than before");
            self.inbox.missed();
        }
        server.clone_into(&mut known);
    }
}

#[async_trait]
impl Engine for PostgresEngine {
    fn promises(&self) -> Promises {
        Promises {
            fair: true,
            rwlock: true,
            semaphore: true,
            fence: Grade::Ordered,
            tokens_per_grant: TOKENS_PER_GRANT,
            durable: true,
            memo: self.has_memo,
            retention: self.has_memo,
            stamp: self.has_stamps,
            stamp_word: self.has_stamps,
            holders: true,
            ..Promises::least(Reach::Network)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let doing = || "open a session".to_owned();
        let lease = Lease {
            id: LeaseId(random_u128()),
            ttl,
        };
        // Before the row: from then on others may tell us something.
        self.ears.add(lease.id).await;
        let arguments = format!(
            "{}, {}, {}, {}, {}",
            lease_id(lease.id),
            whole_millis(ttl),
            quoted(owner.host()),
            owner.pid(),
            quoted(owner.label()),
        );
        let opened = self.call(Lane::AtOnce, "open", &arguments, doing).await;
        let opened = opened.and_then(|answer| {
            let row = answer.rows.first();
            let epoch = row.and_then(|row| number(row, 0));
            let epoch = epoch.ok_or_else(|| strange(doing(), &self.pool.label))?;
            let server = row.and_then(|row| column(row, 1)).unwrap_or_default();
            self.inbox.add_lease(lease, epoch, server);
            self.meets(server);
            Ok(lease)
        });
        if opened.is_err() {
            self.ears.remove(lease.id).await;
        }
        opened
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        renewal::renew(self, lease).await
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        claims::close(self, lease).await
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.inbox.lease(lease.id) else {
            return std::future::pending().await;
        };
        tokio::select! {
            biased;
            () = open.news.notified() => {}
            () = self.ears.listen(&self.inbox) => {}
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        claims::enqueue(self, ticket).await
    }

    async fn enqueue_all(&self, tickets: &[Ticket]) -> Result<Together> {
        claims::enqueue_all(self, tickets).await
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        waiting::wait(self, ticket).await
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        match cause {
            Cause::Ours => claims::withdraw(self, claim).await,
            Cause::Evicted { by, reason } => claims::evict(self, claim, by, reason).await,
        }
    }

    async fn write_memo(&self, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
        memo::write(self, claim, memo, None).await
    }

    async fn write_memo_for(&self, claim: &ClaimRef, memo: &Memo, keep: Duration) -> Result<Noted> {
        memo::write(self, claim, memo, Some(keep)).await
    }

    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        memo::read(self, name).await
    }

    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        inspect::holders(self, name).await
    }

    async fn stamp(&self, _lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        let doing = || format!("read {name} without a lock");
        let name = quoted(name.as_str());
        let answer = self.call_to_read("stamp_of", &name, doing).await?;
        let row = answer.rows.first();
        let row = row.ok_or_else(|| strange(doing(), &self.pool.label))?;
        Ok(column(row, 0).map(|mark| Mark(mark.to_owned())))
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

/// What is behind these locks is whole after any panic: no code that could
/// panic runs while one is taken.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
