//! Requests, over a few connections. Each is one message and one transaction.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_postgres::{PgConnectOptions, PgConnection, PgPool, PgRow};
use tokio::sync::Semaphore;

use super::fault::{Cure, cure, fault};
use super::lock;
use super::route::Route;
use super::together::{Change, Unanswered};
use crate::backoff;
use crate::clock::boot_time;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::gather::{self, Gathering, Joined};
use crate::random::random_u64;

/// Goes before every statement and holds for its transaction only, unless the
/// server's defaults are such that it is not needed. In another isolation level
/// a transaction would see a queue as it was before it had to wait for it; our
/// functions refuse that. What commits has to be on disk; our functions see to
/// that too. The limits take the place of the server's; nothing here takes long
/// unless the server does.
const PINNED: &str = "set transaction isolation level read committed; \
     set local synchronous_commit = on; \
     set local lock_timeout = 2000; set local statement_timeout = 4000; ";

/// How long a connection may take, and an answer.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// How often a request is made again because others were in its way.
const ATTEMPTS: u32 = 6;

/// How long requests go one by one after some that went together were refused.
const APART: Duration = Duration::from_secs(1);

/// What a request brought.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) rows: Vec<PgRow>,
    /// One before it may have been carried out, and its answer lost.
    pub(super) is_repeated: bool,
}

/// Connections to one database.
pub(super) struct Pool {
    own: Arc<Own>,
    users: Option<PgPool>,
    /// The database for people.
    pub(super) label: String,
}

/// Which connections a request uses, and whether it waits for those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// In line; those of the user's pool if there is one.
    InLine,
    /// In line, but never on a user's connection: those may all be in use by
    /// tasks that wait for this very request, because it gives back a lock.
    Aside,
    /// On one of ours, and one more is made if all are in use. What keeps leases
    /// must not stand behind requests that nobody drives on.
    AtOnce,
}

/// Connections that we make.
pub(super) struct Own {
    route: Arc<Route>,
    idle: Mutex<Vec<PgConnection>>,
    pub(super) room: Semaphore,
    is_pinned: AtomicBool,
    pub(super) gathering: Gathering<Change, Result<Option<PgRow>, Unanswered>>,
    /// Until when nobody goes together, in nanoseconds of the boot clock.
    apart: AtomicU64,
}

impl Pool {
    pub(super) fn new(route: Route, connections: usize, label: String) -> Self {
        Self {
            own: Arc::new(Own {
                route: Arc::new(route),
                idle: Mutex::default(),
                room: Semaphore::new(connections),
                is_pinned: AtomicBool::new(true),
                gathering: Gathering::new(connections),
                apart: AtomicU64::new(0),
            }),
            users: None,
            label,
        }
    }

    pub(super) fn of_user(pool: PgPool, label: String) -> Self {
        let route = Route::new(vec![(*pool.connect_options()).clone()]);
        Self {
            users: Some(pool),
            ..Self::new(route, 1, label)
        }
    }

    /// The server's defaults are known to be what we need. Should they change,
    /// everything is pinned again.
    pub(super) fn trust_defaults(&self) {
        self.own.is_pinned.store(false, Ordering::Relaxed);
    }

    /// How to make a connection beside the pool's.
    pub(super) fn options(&self) -> PgConnectOptions {
        self.own.route.options()
    }

    pub(super) fn route(&self) -> Arc<Route> {
        self.own.route.clone()
    }

    /// Makes a request, and makes it again where that may help. It must be one
    /// that may be made twice.
    ///
    /// # Cancel safety
    /// The request may be carried out; its connection is closed.
    pub(super) async fn ask(&self, statement: &str, doing: impl Fn() -> String) -> Result<Answer> {
        self.ask_in(Lane::InLine, statement, doing).await
    }

    /// The same in another lane.
    pub(super) async fn ask_in(
        &self,
        lane: Lane,
        statement: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        self.ask_alone(lane, statement, false, doing).await
    }

    /// The same for a request that changes the queue of this name, a literal, and
    /// calls a function for one row. If others are on their way, it goes together
    /// with those that are made now.
    pub(super) async fn ask_together(
        &self,
        lane: Lane,
        name: &str,
        call: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        let alone = format!("select {call}");
        let is_users = self.users.is_some() && lane == Lane::InLine;
        if is_users || self.own.is_apart() {
            return self.ask_alone(lane, &alone, false, doing).await;
        }
        let place = match gather::join(&self.own, || Change::of(name, call)) {
            Joined::Together(place) => place,
            Joined::Alone(_way) => {
                return self.ask_alone(lane, &alone, false, doing).await;
            }
        };
        match place.answer().await {
            Some(Ok(Some(row))) => Ok(Answer {
                rows: vec![row],
                is_repeated: false,
            }),
            // Its queue was in use, or one by one it comes out whose request was
            // refused, and why.
            Some(Ok(None)) => self.ask_alone(lane, &alone, false, doing).await,
            Some(Err(Unanswered::Refused)) => {
                self.own.stay_apart();
                self.ask_alone(lane, &alone, false, doing).await
            }
            None | Some(Err(Unanswered::InDoubt)) => {
                self.ask_alone(lane, &alone, true, doing).await
            }
            Some(Err(Unanswered::Silent)) => Err(self.silent(doing())),
        }
    }

    fn silent(&self, doing: String) -> Error {
        let error = Error::new(ErrorKind::Unavailable, doing, "the server does not answer");
        error.on(&*self.label).effect_is(Effect::Unknown)
    }

    async fn ask_alone(
        &self,
        lane: Lane,
        statement: &str,
        mut is_repeated: bool,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        let mut attempt = 0;
        let mut reconnections = 0;
        let most_reconnections = self.most_idle();
        loop {
            let (error, is_new) = match self.once(lane, statement).await {
                Ok(rows) => return Ok(Answer { rows, is_repeated }),
                Err(Trouble::Failed { error, is_new }) => (error, is_new),
                Err(Trouble::Silent) => return Err(self.silent(doing())),
            };
            let cure = cure(&error);
            if cure == Cure::Again {
                self.own.is_pinned.store(true, Ordering::Relaxed);
            }
            let fault = fault(error, doing(), &self.label);
            is_repeated |= fault.effect() == Effect::Unknown;
            let is_last = match cure {
                Cure::None => true,
                // What lay idle for long may all be broken.
                Cure::Reconnect => {
                    reconnections += 1;
                    is_new || reconnections > most_reconnections
                }
                Cure::Again => {
                    attempt += 1;
                    attempt >= ATTEMPTS
                }
            };
            if is_last {
                let effect = match is_repeated {
                    true => Effect::Unknown,
                    false => fault.effect(),
                };
                return Err(fault.effect_is(effect));
            }
            if cure == Cure::Again {
                let (first, longest) = (Duration::from_millis(2), Duration::from_millis(100));
                tokio::time::sleep(backoff::pause(attempt, first, longest, random_u64())).await;
            }
        }
    }

    fn most_idle(&self) -> u32 {
        let own = u32::try_from(lock(&self.own.idle).len()).unwrap_or(u32::MAX - 1);
        own.max(self.users.as_ref().map_or(0, PgPool::size)) + 1
    }

    async fn once(&self, lane: Lane, statement: &str) -> Result<Vec<PgRow>, Trouble> {
        let text = self.own.pinned(statement);
        match &self.users {
            Some(pool) if lane == Lane::InLine => run_on(pool, text).await,
            _ => self.own.run(lane, text).await,
        }
    }
}

async fn run_on(pool: &PgPool, text: String) -> Result<Vec<PgRow>, Trouble> {
    let failed = |error| Trouble::Failed {
        error,
        is_new: false,
    };
    let mut connection = pool.acquire().await.map_err(failed)?;
    let request = connection.fetch_all(raw_sql(AssertSqlSafe(text)));
    let answer = tokio::time::timeout(LIMIT, request).await;
    let is_well = matches!(&answer, Ok(Ok(_)))
        || matches!(&answer, Ok(Err(error)) if cure(error) != Cure::Reconnect);
    if !is_well {
        connection.close_on_drop();
    }
    answer.map_err(|_| Trouble::Silent)?.map_err(failed)
}

pub(super) enum Trouble {
    Failed {
        error: SqlxError,
        /// The connection was made for this request.
        is_new: bool,
    },
    Silent,
}

impl Own {
    /// The server refused what went together: that is not done twice at once, or
    /// whatever it has too much of would only grow.
    fn stay_apart(&self) {
        let until = boot_time() + APART;
        self.apart.store(until.nanos(), Ordering::Relaxed);
    }

    fn is_apart(&self) -> bool {
        let until = self.apart.load(Ordering::Relaxed);
        until > 0 && boot_time().nanos() < until
    }

    pub(super) fn pinned(&self, statement: &str) -> String {
        match self.is_pinned.load(Ordering::Relaxed) {
            true => format!("{PINNED}{statement}"),
            false => statement.to_owned(),
        }
    }

    async fn run(&self, lane: Lane, text: String) -> Result<Vec<PgRow>, Trouble> {
        let _room = match lane {
            // It is never closed.
            Lane::InLine | Lane::Aside => self.room.acquire().await.ok(),
            Lane::AtOnce => None,
        };
        // Nobody gives up what keeps a lease unless the server is silent; others
        // are given up for many reasons.
        let mut silence = Silence {
            own: self,
            is_over: lane != Lane::AtOnce,
        };
        let answer = tokio::time::timeout(LIMIT, self.run_now(text)).await;
        silence.is_over = answer.is_ok();
        answer.unwrap_or(Err(Trouble::Silent))
    }

    pub(super) async fn run_now(&self, text: String) -> Result<Vec<PgRow>, Trouble> {
        let idle = lock(&self.idle).pop();
        let is_new = idle.is_none();
        let failed = |error| Trouble::Failed { error, is_new };
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.route.connect().await.map_err(failed)?,
        };
        let answer = connection.fetch_all(raw_sql(AssertSqlSafe(text))).await;
        // Without a whole answer nobody knows what still comes over it: it is
        // closed, which dropping does.
        let is_well = match &answer {
            Ok(_) => true,
            Err(error) => cure(error) != Cure::Reconnect,
        };
        if is_well {
            lock(&self.idle).push(connection);
        } else if !is_new {
            // Those that lay beside it are likely as stale. Whoever went over one of
            // them would be in doubt for nothing.
            lock(&self.idle).clear();
        }
        answer.map_err(failed)
    }
}

/// A request without an answer. Other connections that lie idle are likely as
/// dead as its own: the next request makes a new one.
struct Silence<'a> {
    own: &'a Own,
    is_over: bool,
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            lock(&self.own.idle).clear();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({})", self.label)
    }
}
