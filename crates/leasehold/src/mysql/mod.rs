//! The MySQL and MariaDB engine: locks in the database that you already have.
//!
//! A lock is a row that stays, its first seat, and a row for each claim that had to
//! come after. A free lock is taken by one statement that changes the first seat.
//! Otherwise whoever puts a claim takes that row first, for the length of one short
//! transaction. The claim's order is drawn from it, and so it is a token too. A
//! lease is one row, renewed on the server's clock. A request is one message.
//! The server can tell nobody anything, so whoever waits looks.
//! The layout and every step are in `docs/stores/mysql.md`.

mod asking;
mod bare;
mod claims;
mod closing;
mod company;
mod config;
mod confirm;
mod fault;
mod fence;
mod flight;
mod holders;
mod inbox;
mod inspect;
mod layout;
mod leaving;
mod line;
mod look;
mod memo;
mod pool;
mod prepared;
mod renewal;
mod stamp;
mod sweep;
mod takeover;
mod term;
mod text;
mod tie;
mod together;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
pub use sqlx_mysql::{MySqlPool, MySqlTransaction};

#[doc(hidden)]
pub use self::bare::{BareMysql, BareNamedLock};
use self::company::Company;
pub(crate) use self::config::{MysqlConfig, OPTIONS, Refusal, SCHEMES};
pub use self::fence::fence;
use self::inbox::{Footing, Inbox};
use self::layout::{Kind, Tables};
use self::look::strange;
use self::pool::{Answer, Lane, Pool};
use self::prepared::Forms;
use self::renewal::whole_micros;
use self::text::{column, lease as lease_literal, number, quoted};
use self::tie::Bell;
use crate::clock::Clock;
use crate::config::{Config, Store};
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, LeaseId, Mark, Memo, Noted, Owner, Reading, Renewal, Standing,
    Ticket, Together, Watch, Withdrawn,
};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::promises::{Freed, Grade, Promises, Reach};
use crate::random::random_u128;
use crate::session::Session;

/// How many tokens one grant may be split into; `sql/enqueue.sql` knows it too.
const TOKENS_PER_GRANT: u32 = 32;

/// Opens a session on a pool of your own. The options are those of a URL, such
/// as `ttl=5s&schema=locks`; they may be empty.
///
/// Requests take turns on the pool's connections; one more connection, which
/// keeps the lease, is made beside it.
///
/// # Errors
/// As for [`connect`](crate::connect).
///
/// # Cancel safety
/// As for [`connect`](crate::connect).
pub async fn connect_with(pool: MySqlPool, options: &str) -> Result<Session> {
    let config = Config::parse(&format!("mysql://pool/any?{options}"))?;
    let Store::Mysql(mysql) = &config.store else {
        return Err(Error::new(ErrorKind::Config, "connect", "not MySQL"));
    };
    let connect_options = pool.connect_options();
    let Some(database) = connect_options.get_database() else {
        let why = "the pool's connections name no database";
        return Err(Error::new(ErrorKind::Config, "connect", why));
    };
    let label = config::label(&connect_options);
    let pool = Pool::of_user(pool, label);
    let engine = MysqlEngine::start(pool, database, mysql).await?;
    let (settings, label) = (config.settings, config.label);
    Session::start(Arc::new(engine), "mysql", Clock::Boot, settings, label).await
}

/// What the engine needs in a database, as SQL for those who make tables by
/// hand. It may be run again. Database and schema are those that the URL names.
///
/// # Errors
/// `Config` if the URL is not one of MySQL or MariaDB.
pub fn schema(url: &str) -> Result<String> {
    match Config::parse(url)?.store {
        Store::Mysql(config) => {
            let database = config.database.as_deref().unwrap_or_default();
            Ok(Tables::new(database, &config.schema).script())
        }
        _ => {
            let why = "not a MySQL or MariaDB URL";
            Err(Error::new(ErrorKind::Config, "print the schema", why))
        }
    }
}

/// Locks in a MySQL or MariaDB database.
#[derive(Debug)]
pub(crate) struct MysqlEngine {
    pool: Arc<Pool>,
    /// Those who go together, where that is possible.
    company: Option<Arc<Company>>,
    inbox: Inbox,
    tables: Tables,
    forms: Forms,
    database: String,
    schema: String,
    kind: Kind,
    /// There is a table of memos that this user may use.
    has_memo: bool,
    /// Sessions are tied to a connection.
    is_tied: bool,
    /// Which server was met last.
    server: Mutex<String>,
    /// The latest term that was heard of.
    term: AtomicU64,
    /// The server's run that stamps are of.
    run: Mutex<stamp::Run>,
    /// Whether commits wait for another server.
    waits: Mutex<confirm::Waits>,
    /// It was told that this user may not remove memos.
    has_warned: AtomicBool,
}

impl MysqlEngine {
    /// Connects, looks whether the server fits, and makes the tables if they are
    /// missing.
    pub(crate) async fn connect(config: &MysqlConfig) -> Result<Self> {
        config.tls.check_files(&config.label())?;
        let pool = Pool::new(config.options(), config.connections, config.label());
        let database = config.database.as_deref().unwrap_or_default();
        Self::start(pool, database, config).await
    }

    async fn start(mut pool: Pool, database: &str, config: &MysqlConfig) -> Result<Self> {
        let schema = config.schema.as_str();
        let tables = Tables::new(database, schema);
        let (kind, has_memo) = layout::prepare(&pool, &tables, database, schema).await?;
        if config.is_tied {
            tie::check(&pool).await?;
            pool.is_tied = true;
        }
        if kind == Kind::MariaDb {
            pool.prepares();
        }
        let pool = Arc::new(pool);
        Ok(Self {
            company: Company::of(&pool, &tables, kind),
            inbox: Inbox::default(),
            forms: Forms::of(&tables, kind, tie::loose_text(config.is_tied)),
            tables,
            database: database.into(),
            schema: schema.into(),
            kind,
            has_memo,
            is_tied: config.is_tied,
            server: Mutex::default(),
            term: AtomicU64::new(0),
            run: Mutex::default(),
            waits: Mutex::default(),
            has_warned: AtomicBool::new(false),
            pool,
        })
    }

    async fn ask(&self, text: &str, doing: impl Fn() -> String) -> Result<Answer> {
        let answer = self.pool.ask(text, doing).await;
        self.hear_of_breaks();
        answer
    }

    /// The same for a request that has no transaction of its own.
    async fn ask_plainly(&self, text: &str, doing: impl Fn() -> String) -> Result<Answer> {
        let answer = self.pool.ask_plainly(Lane::Common, text, doing).await;
        self.hear_of_breaks();
        answer
    }

    /// `None` if somebody did not let go of a row.
    async fn ask_or_locked(
        &self,
        text: &str,
        doing: impl Fn() -> String,
    ) -> Result<Option<Answer>> {
        let answer = self.pool.ask_or_locked(Lane::Aside, text, doing).await;
        self.hear_of_breaks();
        answer
    }

    /// A connection that ends may be a server that ended: all is verified.
    fn hear_of_breaks(&self) {
        if self.pool.has_broken() {
            self.inbox.missed();
        }
    }

    /// After a failover everything that is held is verified.
    fn meets(&self, server: &str) {
        let mut known = lock(&self.server);
        if *known == server {
            return;
        }
        if !known.is_empty() {
            tracing::warn!(%server, "another server than before");
            self.inbox.missed();
        }
        server.clone_into(&mut known);
    }
}

#[async_trait]
impl Engine for MysqlEngine {
    fn promises(&self) -> Promises {
        let crash = match self.is_tied {
            true => Freed::AtOnce,
            false => Freed::AfterTtl,
        };
        Promises {
            crash,
            fair: true,
            rwlock: true,
            semaphore: true,
            fence: Grade::Ordered,
            tokens_per_grant: TOKENS_PER_GRANT,
            durable: !self.is_tied,
            memo: self.has_memo,
            retention: self.has_memo,
            stamp: true,
            holders: true,
            ..Promises::least(Reach::Network)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let doing = || "open a session".to_owned();
        // The lease is counted from now on.
        let _ = tokio::time::timeout(ttl / 8, sweep::sweep(self)).await;
        let lease = Lease {
            id: LeaseId(random_u128()),
            ttl,
        };
        let (tie, is_tied, bell) = match self.is_tied {
            true => {
                let bell = Bell::hang(&self.pool, lease.id, ttl).await?;
                (tie::tie_text(ttl), tie::tie_now(lease.id), Some(bell))
            }
            false => (String::new(), "1".into(), None),
        };
        let text = format!(
            include_str!("sql/open.sql"),
            tie = tie,
            tied = self.is_tied,
            is_tied = is_tied,
            session = self.tables.session,
            meta = self.tables.meta,
            server = self.kind.identity(),
            current = self.current_text(),
            lease = lease_literal(lease.id),
            ttl = whole_micros(ttl),
            host = quoted(owner.host()),
            pid = owner.pid(),
            label = quoted(owner.label()),
        );
        let answer = self.pool.ask_on(Lane::Leases, &text, doing).await?;
        let row = answer.rows.first();
        let epoch = row.and_then(|row| number(row, 0));
        let epoch = epoch.ok_or_else(|| strange(doing(), &self.pool.label))?;
        if self.is_tied {
            self.is_direct(row).await?;
        }
        let server = row.and_then(|row| column(row, 1)).unwrap_or_default();
        let mut ground = None;
        match row.and_then(|row| column(row, 4)).as_deref() {
            Some("1") => {
                let term = row.and_then(|row| number(row, 5)).unwrap_or(0);
                self.learns_term(term);
                ground = Some((server.clone(), term));
            }
            _ => term::settle(self, Lane::Leases, doing).await?,
        }
        let footing = Footing { epoch, ground };
        self.inbox.add_lease(lease, footing, bell);
        self.meets(&server);
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        renewal::renew(self, lease).await
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        closing::close(self, lease).await
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.inbox.lease(lease.id) else {
            return std::future::pending().await;
        };
        let Some(bell) = &open.bell else {
            return open.news.notified().await;
        };
        loop {
            let heard = tokio::select! {
                () = open.news.notified() => return,
                heard = bell.listen() => heard,
            };
            match heard {
                tie::Heard::Woken => self.inbox.woken(),
                tie::Heard::Missed => return self.inbox.missed(),
            }
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        claims::enqueue(self, ticket).await
    }

    async fn enqueue_all(&self, tickets: &[Ticket]) -> Result<Together> {
        together::enqueue_all(self, tickets).await
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        waiting::wait(self, ticket).await
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        match cause {
            Cause::Ours => leaving::withdraw(self, claim).await,
            Cause::Evicted { by, reason } => leaving::evict(self, claim, by, reason).await,
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
        holders::holders(self, name).await
    }

    async fn stamp(&self, _lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        stamp::stamp(self, name).await
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
