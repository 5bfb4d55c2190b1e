//! Sessions that are tied to a connection (`mode=session`): the connection that
//! keeps the lease has a lock of the server's (`get_lock`), and without it the
//! session is dead for everybody, at once. A second connection dozes, and whoever
//! gives back a lock wakes the one whose turn it is.

use std::pin::Pin;
use std::time::Duration;

use sqlx_core::connection::ConnectOptions;
use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};

use super::MysqlEngine;
use super::fault::{code, fault};
use super::inbox::Mine;
use super::pool::{LIMIT, Lane, Pool};
use super::text::{column, name as name_literal, number};
use crate::backoff;
use crate::engine::LeaseId;
use crate::error::{Error, ErrorKind, Result};
use crate::random::random_u64;

/// Whether the session `s` is tied to a connection that is not there any more. MySQL
/// refuses to be asked for a lock without a name, as where there is no `s`.
pub(super) const IS_LOOSE: &str =
    "if(s.tied, coalesce(is_free_lock(concat('leasehold.', lower(hex(s.id)))), 0), 0)";

/// The same where `s` is a session of ours, which may be known not to be tied.
pub(super) fn loose_text(is_tied: bool) -> &'static str {
    match is_tied {
        true => IS_LOOSE,
        false => "false",
    }
}

impl MysqlEngine {
    /// Whether the connection that keeps the lease is ours alone, all the way.
    pub(super) async fn is_direct(&self, opened: Option<&MySqlRow>) -> Result<()> {
        let doing = || "open a session".to_owned();
        let has_tie = opened.and_then(|row| column(row, 2)).as_deref() == Some("1");
        if !has_tie {
            let why = "the server did not give the session its lock in time";
            return Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*self.pool.label));
        }
        // Poolers answer this by themselves, or another connection does.
        let asking = self
            .pool
            .ask_on(Lane::Leases, "select connection_id()", doing);
        let answer = asking.await?;
        let now = answer.rows.first().and_then(|row| number::<u64>(row, 0));
        let then = opened.and_then(|row| number::<u64>(row, 3));
        match now == then {
            true => Ok(()),
            false => Err(is_shared(&self.pool)),
        }
    }
}

/// How long one doze lasts, in seconds. Nothing depends on it.
const DOZE: u32 = 5;
/// What a doze says when it was interrupted.
const INTERRUPTED: u16 = 1317;
/// How many sessions are woken where several can get in at once.
const SEVERAL: u32 = 8;

/// The name of the lock that a tied session has, as a literal.
fn key(lease: LeaseId) -> String {
    format!("'leasehold.{:032x}'", lease.0)
}

/// What ties the connection to the session before it is opened.
pub(super) fn tie_text(ttl: Duration) -> String {
    // The server ends a connection that is silent for this long, and with it the
    // session of a process that stands still.
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    format!("set session wait_timeout = {};\n", seconds.max(1))
}

/// Whether this very connection has the lock; it waits for the end of another one
/// that asked for the same session before.
pub(super) fn tie_now(lease: LeaseId) -> String {
    format!("coalesce(get_lock({}, 2), 0)", key(lease))
}

/// Whether this very connection still has it.
pub(super) fn is_tied(lease: LeaseId) -> String {
    let key = key(lease);
    format!("coalesce(is_used_lock({key}) = connection_id(), 0)")
}

/// Gives the lock back.
pub(super) fn untie_text(lease: LeaseId) -> String {
    format!("do release_lock({})", key(lease))
}

/// A connection that does nothing but wait to be woken.
pub(super) struct Bell {
    rope: Rope,
    dozing: tokio::sync::Mutex<Dozing>,
}

/// What a bell hangs on.
#[derive(Clone)]
struct Rope {
    options: MySqlConnectOptions,
    lease: LeaseId,
    ttl: Duration,
}

/// Kept from one look at it to the next, because it cannot be begun twice.
type Dozing = Pin<Box<dyn Future<Output = Result<Rung, SqlxError>> + Send>>;

struct Rung {
    connection: MySqlConnection,
    heard: Option<Heard>,
}

/// What came of listening.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Woken,
    /// The connection ended, or there is one again. Either may be a server that ended.
    Missed,
}

impl Bell {
    pub(super) async fn hang(pool: &Pool, lease: LeaseId, ttl: Duration) -> Result<Self> {
        let rope = Rope {
            options: pool.options().clone(),
            lease,
            ttl,
        };
        let made = rope.connect().await;
        let made = made.map_err(|error| fault(error, "open a session".into(), &pool.label))?;
        Ok(Self {
            rope,
            dozing: tokio::sync::Mutex::new(doze(made)),
        })
    }

    /// Waits until somebody rings, or the connection ends. Then another one is made in
    /// its place.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn listen(&self) -> Heard {
        let mut dozing = self.dozing.lock().await;
        loop {
            match dozing.as_mut().await {
                Ok(rung) => {
                    *dozing = doze(rung.connection);
                    if let Some(heard) = rung.heard {
                        return heard;
                    }
                }
                Err(_) => {
                    *dozing = self.rope.clone().hang_anew();
                    return Heard::Missed;
                }
            }
        }
    }
}

impl Rope {
    async fn connect(&self) -> Result<MySqlConnection, SqlxError> {
        let making = async {
            let mut connection = self.options.connect().await?;
            let pinned = format!(
                "set session autocommit = 1, wait_timeout = {} \
                 /*M!100101 , max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */; \
                 select get_lock('leasehold+{:032x}', 2)",
                u64::from(DOZE) + self.ttl.as_secs(),
                self.lease.0,
            );
            let rows = connection.fetch_all(raw_sql(AssertSqlSafe(pinned))).await?;
            // Without it nobody knows whom to wake.
            match rows.first().and_then(|row| number::<u32>(row, 0)) {
                Some(1) => Ok(connection),
                _ => Err(SqlxError::PoolTimedOut),
            }
        };
        let made = tokio::time::timeout(LIMIT, making).await;
        made.unwrap_or(Err(SqlxError::PoolTimedOut))
    }

    /// Another connection, however long it takes.
    fn hang_anew(self) -> Dozing {
        Box::pin(async move {
            let mut attempt = 0;
            loop {
                let (first, longest) = (Duration::from_millis(100), Duration::from_secs(5));
                let pause = backoff::pause(attempt, first, longest, random_u64());
                tokio::time::sleep(pause).await;
                if let Ok(connection) = self.connect().await {
                    let heard = Some(Heard::Missed);
                    return Ok(Rung { connection, heard });
                }
                attempt += 1;
            }
        })
    }
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

fn doze(mut connection: MySqlConnection) -> Dozing {
    Box::pin(async move {
        let statement = AssertSqlSafe(format!("select sleep({DOZE})"));
        let longest = Duration::from_secs(u64::from(DOZE)) + LIMIT;
        let asking = connection.fetch_all(raw_sql(statement));
        let is_woken = match tokio::time::timeout(longest, asking).await {
            Ok(Ok(rows)) => {
                rows.first().and_then(|row: &MySqlRow| column(row, 0)) != Some("0".into())
            }
            Ok(Err(error)) if code(&error) == Some(INTERRUPTED) => true,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(SqlxError::PoolTimedOut),
        };
        let heard = is_woken.then_some(Heard::Woken);
        Ok(Rung { connection, heard })
    })
}

/// Which connections doze for those who may hold the lock now, as a statement.
pub(super) fn next_text(engine: &MysqlEngine, mine: &Mine) -> String {
    let most = match mine.capacity {
        1 => 1,
        _ => SEVERAL,
    };
    format!(
        "select is_used_lock(concat('leasehold+', lower(hex(session)))) from {} \
         where name = {} and ticket is not null order by place limit {most}",
        engine.tables.claim,
        name_literal(mine.claim.name.as_str()),
    )
}

/// Wakes them. Whoever is not woken looks by itself, a little later.
pub(super) async fn wake(engine: &MysqlEngine, next: &[MySqlRow]) {
    let mut woken = Vec::new();
    for id in next.iter().filter_map(|row| number::<u64>(row, 0)) {
        if !woken.contains(&id) {
            woken.push(id);
            let text = format!("kill query {id}");
            let asking = engine.pool.ask_on(Lane::Aside, &text, || "wake".into());
            if let Err(error) = asking.await {
                tracing::debug!(%error, "the next one looks by itself");
            }
        }
    }
}

/// Refuses what cannot keep such a session.
pub(super) async fn check(pool: &Pool) -> Result<()> {
    let doing = || "connect".to_owned();
    let answer = pool
        .ask_plainly(Lane::Common, "show global variables like 'wsrep_on'", doing)
        .await?;
    let is_on = answer.rows.first().and_then(|row| column(row, 1));
    if is_on.is_some_and(|value| matches!(&*value, "ON" | "1")) {
        let why = "mode=session needs get_lock, which a Galera cluster does not share between \
                   its nodes: use mode=lease";
        return Err(Error::new(ErrorKind::Config, doing(), why).on(&*pool.label));
    }
    Ok(())
}

/// Something between us and the server lends its connections to many.
pub(super) fn is_shared(pool: &Pool) -> Error {
    let why = "mode=session needs a connection of its own, and something between us and the \
               server, such as a pooler, shares them: use mode=lease";
    Error::new(ErrorKind::Config, "open a session", why).on(&*pool.label)
}
