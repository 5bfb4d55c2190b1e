//! Requests, over a few connections. Each is one message and one transaction.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx_core::connection::ConnectOptions;
use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlRow};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::fault::{Cure, cure, fault, is_locked, is_unprepared};
use super::flight::{Flight, fly};
use super::line::{Connection, Line, Talk};
use super::lock;
use super::prepared::Saying;
use crate::backoff;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::random::random_u64;

/// How long a connection may take, and an answer.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// How often a request is made again because others were in its way.
const ATTEMPTS: u32 = 8;

/// What a connection of our own begins with: our limits take the place of
/// whatever the server has. A user's connections keep theirs. MariaDB reads the one
/// comment, MySQL the other.
const PINNED: &str = "set session transaction isolation level read committed; \
     set session autocommit = 1, innodb_lock_wait_timeout = 2, \
     lock_wait_timeout = 3, wait_timeout = 28800 \
     /*M!100101 , max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */";

/// How a transaction of several statements begins. It fails inside another one,
/// that somebody left open.
pub(super) const READ_COMMITTED: &str =
    "set transaction isolation level read committed; start transaction read write";

/// What a request brought.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) rows: Vec<MySqlRow>,
    /// How many rows it was about, where it wrote.
    pub(super) matched: u64,
    /// What it drew, or zero.
    pub(super) drawn: u64,
    /// One before it may have been carried out, and its answer lost.
    pub(super) is_repeated: bool,
}

/// Whose turn it is on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Behind other requests; on connections of the user's pool if there is one.
    Common,
    /// Behind other requests, but never on a user's connection: those may all be
    /// in use by tasks that wait for this very request, because it gives back a
    /// lock.
    Aside,
    /// What keeps leases has a connection of its own, also beside a user's pool:
    /// it must not stand behind requests that nobody drives on.
    Leases,
}

/// Connections to one database.
pub(super) struct Pool {
    options: MySqlConnectOptions,
    users: Option<MySqlPool>,
    pub(super) idle: Mutex<Vec<MySqlConnection>>,
    room: Semaphore,
    for_leases: tokio::sync::Mutex<Kept>,
    /// A session is tied to the connection that keeps its lease.
    pub(super) is_tied: bool,
    /// A connection ended that was thought well.
    pub(super) has_broken: AtomicBool,
    /// The server keeps statements for us.
    prepares: AtomicBool,
    most: u32,
    /// The database for people.
    pub(super) label: String,
}

/// The connection that keeps leases.
#[derive(Default)]
struct Kept {
    connection: Option<MySqlConnection>,
    /// What was asked over it and has not come to its end.
    flight: Option<Flight>,
}

impl Kept {
    /// Waits for the end of what was asked, if something was.
    ///
    /// # Cancel safety
    /// It goes on with the next call.
    async fn land(&mut self) -> Option<Result<Answer, Trouble>> {
        let landed = self.flight.as_mut()?.await;
        self.flight = None;
        self.connection = landed.connection;
        Some(landed.answer)
    }
}

pub(super) enum Trouble {
    Failed {
        error: SqlxError,
        /// The connection was made for this request.
        is_new: bool,
    },
    Silent,
}

impl Pool {
    pub(super) fn new(options: MySqlConnectOptions, connections: usize, label: String) -> Self {
        Self {
            options,
            users: None,
            idle: Mutex::default(),
            room: Semaphore::new(connections),
            for_leases: tokio::sync::Mutex::default(),
            is_tied: false,
            has_broken: AtomicBool::new(false),
            prepares: AtomicBool::new(false),
            most: u32::try_from(connections).unwrap_or(u32::MAX),
            label,
        }
    }

    pub(super) fn of_user(pool: MySqlPool, label: String) -> Self {
        let options = (*pool.connect_options()).clone();
        let most = pool.options().get_max_connections();
        let made = Self::new(options.disable_statement_logging(), 1, label);
        Self {
            users: Some(pool),
            most,
            ..made
        }
    }

    /// How to make a connection beside these.
    pub(super) fn options(&self) -> &MySqlConnectOptions {
        &self.options
    }

    /// The server is one that keeps statements. Should it refuse to, they go as text.
    pub(super) fn prepares(&self) {
        self.prepares.store(self.users.is_none(), Ordering::Relaxed);
    }

    /// Drops what is idle, so that the next request makes its way anew.
    pub(super) fn forget_connections(&self) {
        lock(&self.idle).clear();
        if let Ok(mut kept) = self.for_leases.try_lock() {
            *kept = Kept::default();
        }
    }

    /// Whether a connection ended since this was last asked.
    pub(super) fn has_broken(&self) -> bool {
        self.has_broken.swap(false, Ordering::AcqRel)
    }

    pub(super) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// How many connections it may have, beside what keeps leases.
    pub(super) fn size(&self) -> usize {
        usize::try_from(self.most).unwrap_or(usize::MAX)
    }

    /// A turn on the connections that are ours.
    pub(super) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.room.acquire().await.ok()
    }

    /// Makes a request once, by somebody who has room for it.
    pub(super) async fn once_more(&self, statement: &str) -> Result<Answer, Trouble> {
        let idle = lock(&self.idle).pop();
        let mut line = self.own_line(idle, None).await?;
        let answer = line.say(statement).await;
        line.give_back();
        answer
    }

    /// Whether requests go over connections of the user's pool.
    pub(super) fn is_users(&self, lane: Lane) -> bool {
        lane == Lane::Common && self.users.is_some()
    }

    /// The same as `ask`; `None` if somebody did not let go of a row.
    pub(super) async fn ask_or_locked(
        &self,
        lane: Lane,
        saying: impl Into<Saying<'_>>,
        doing: impl Fn() -> String,
    ) -> Result<Option<Answer>> {
        let saying = saying.into();
        let mut is_repeated = false;
        let mut attempt = 0;
        let mut reconnections = 0;
        loop {
            let (error, is_new) = match self.once(lane, saying).await {
                Ok(answer) => {
                    return Ok(Some(Answer {
                        is_repeated,
                        ..answer
                    }));
                }
                Err(Trouble::Failed { error, is_new }) => (error, is_new),
                Err(Trouble::Silent) => {
                    let why = "the server does not answer";
                    let error = Error::new(ErrorKind::Unavailable, doing(), why);
                    return Err(error.on(&*self.label).effect_is(Effect::Unknown));
                }
            };
            if is_unprepared(&error) && self.prepares.swap(false, Ordering::Relaxed) {
                // With these the server forgets what it keeps for us: others may need
                // the room.
                lock(&self.idle).clear();
            }
            let (cure, is_locked) = (cure(&error), is_locked(&error));
            let fault = fault(error, doing(), &self.label);
            is_repeated |= fault.effect() == Effect::Unknown;
            let is_last = match cure {
                Cure::None => true,
                // What lay idle for long may all be broken.
                Cure::Reconnect => {
                    reconnections += 1;
                    is_new || reconnections > self.most + 1
                }
                Cure::Again => {
                    attempt += 1;
                    attempt >= ATTEMPTS
                }
            };
            if is_last && is_locked && !is_repeated {
                return Ok(None);
            }
            if is_last {
                let effect = match is_repeated {
                    true => Effect::Unknown,
                    false => fault.effect(),
                };
                return Err(fault.effect_is(effect));
            }
            if cure == Cure::Again {
                let (first, longest) = (Duration::from_millis(1), Duration::from_millis(100));
                tokio::time::sleep(backoff::pause(attempt, first, longest, random_u64())).await;
            }
        }
    }

    async fn once(&self, lane: Lane, saying: Saying<'_>) -> Result<Answer, Trouble> {
        let text;
        let saying = match self.prepares.load(Ordering::Relaxed) {
            true => saying,
            false => {
                text = saying.text();
                Saying::Text(&text)
            }
        };
        match lane {
            Lane::Common | Lane::Aside => {
                let mut line = self.line(lane).await?;
                let answer = line.say(saying).await;
                line.give_back();
                answer
            }
            Lane::Leases => {
                let mut kept = self.for_leases.lock().await;
                kept.land().await;
                let mut line = self.own_line(kept.connection.take(), None).await?;
                if self.is_tied
                    && let Some(connection) = line.take_own()
                {
                    let flight = fly(connection, line.is_new, saying.text().into_owned());
                    kept.flight = Some(flight);
                    let answer = kept.land().await.unwrap_or(Err(Trouble::Silent));
                    self.notice(&answer);
                    return answer;
                }
                let answer = line.say(saying).await;
                // Also if something was in its way.
                kept.connection = line.keep();
                answer
            }
        }
    }

    /// A connection that ends may be a server that ended.
    fn notice(&self, answer: &Result<Answer, Trouble>) {
        let has_broken = match answer {
            Ok(_) => false,
            Err(Trouble::Silent) => true,
            Err(Trouble::Failed { error, .. }) => cure(error) == Cure::Reconnect,
        };
        if has_broken {
            self.has_broken.store(true, Ordering::Release);
        }
    }

    /// Several requests that belong together, over one connection. What is begun
    /// in it and not ended is undone.
    pub(super) async fn talk(&self, lane: Lane, doing: impl Fn() -> String) -> Result<Talk<'_>> {
        match self.line(lane).await {
            Ok(line) => Ok(Talk::over(line)),
            Err(trouble) => Err(self.trouble(trouble, doing())),
        }
    }

    pub(super) fn trouble(&self, trouble: Trouble, doing: String) -> Error {
        match trouble {
            Trouble::Failed { error, .. } => fault(error, doing, &self.label),
            Trouble::Silent => {
                let why = "the server does not answer";
                let error = Error::new(ErrorKind::Unavailable, doing, why);
                error.on(&*self.label).effect_is(Effect::Unknown)
            }
        }
    }

    async fn line(&self, lane: Lane) -> Result<Line<'_>, Trouble> {
        let Some(users) = self.users.as_ref().filter(|_| lane == Lane::Common) else {
            // It is never closed.
            let room = self.room.acquire().await.ok();
            let idle = lock(&self.idle).pop();
            return self.own_line(idle, room).await;
        };
        let connection = tokio::time::timeout(LIMIT, users.acquire()).await;
        let failed = |error| Trouble::Failed {
            error,
            is_new: false,
        };
        let connection = connection.map_err(|_| failed(SqlxError::PoolTimedOut))?;
        let connection = Connection::Users(Box::new(connection.map_err(failed)?));
        Ok(Line::over(self, connection, None, false))
    }

    async fn own_line<'a>(
        &'a self,
        kept: Option<MySqlConnection>,
        room: Option<SemaphorePermit<'a>>,
    ) -> Result<Line<'a>, Trouble> {
        let is_new = kept.is_none();
        let connection = match kept {
            Some(connection) => connection,
            None => {
                let making = async {
                    let mut connection = self.options.connect().await?;
                    connection.execute(raw_sql(PINNED)).await?;
                    Ok(connection)
                };
                let made = tokio::time::timeout(LIMIT, making).await;
                let made = made.map_err(|_| Trouble::Silent)?;
                made.map_err(|error| Trouble::Failed { error, is_new })?
            }
        };
        let connection = Connection::Own(Box::new(connection));
        Ok(Line::over(self, connection, room, is_new))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({})", self.label)
    }
}
