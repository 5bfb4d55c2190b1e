//! Requests, over a few connections. Each is one message and one transaction.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx_core::connection::ConnectOptions;
use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::pool::PoolConnection;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_mysql::{MySql, MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlRow};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::fault::{Cure, cure, fault, is_locked};
use super::lock;
use crate::backoff;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::random::random_u64;

/// How long a connection may take, and an answer.
const LIMIT: Duration = Duration::from_secs(5);

/// How often a request is made again because others were in its way.
const ATTEMPTS: u32 = 8;

/// What a connection of our own begins with: our limits take the place of
/// whatever the server has. A user's connections keep theirs.
const PINNED: &str = "set session autocommit = 1, innodb_lock_wait_timeout = 2, \
     lock_wait_timeout = 3, wait_timeout = 28800";

/// What a request brought.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) rows: Vec<MySqlRow>,
    /// One before it may have been carried out, and its answer lost.
    pub(super) is_repeated: bool,
}

/// Whose turn it is on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Behind other requests.
    Common,
    /// What keeps leases has a connection of its own, also beside a user's pool:
    /// it must not stand behind requests that nobody drives on.
    Leases,
}

/// Connections to one database.
pub(super) struct Pool {
    options: MySqlConnectOptions,
    users: Option<MySqlPool>,
    idle: Mutex<Vec<MySqlConnection>>,
    room: Semaphore,
    for_leases: tokio::sync::Mutex<Option<MySqlConnection>>,
    /// A connection ended that was thought well.
    has_broken: AtomicBool,
    most: u32,
    /// The database for people.
    pub(super) label: String,
}

enum Trouble {
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
            has_broken: AtomicBool::new(false),
            most: u32::try_from(connections).unwrap_or(u32::MAX),
            label,
        }
    }

    pub(super) fn of_user(pool: MySqlPool, label: String) -> Self {
        let options = (*pool.connect_options()).clone();
        let most = usize::try_from(pool.options().get_max_connections()).unwrap_or(1);
        let made = Self::new(options.disable_statement_logging(), most, label);
        Self {
            users: Some(pool),
            ..made
        }
    }

    /// Whether a connection ended since this was last asked.
    pub(super) fn has_broken(&self) -> bool {
        self.has_broken.swap(false, Ordering::AcqRel)
    }

    /// Makes a request, and makes it again where that may help. It must be one
    /// that may be made twice.
    ///
    /// # Cancel safety
    /// The request may be carried out; its connection is closed.
    pub(super) async fn ask(&self, statement: &str, doing: impl Fn() -> String) -> Result<Answer> {
        self.ask_on(Lane::Common, statement, doing).await
    }

    pub(super) async fn ask_on(
        &self,
        lane: Lane,
        statement: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        match self.ask_or_locked(lane, statement, &doing).await? {
            Some(answer) => Ok(answer),
            None => {
                let why = "rows stay locked by another transaction";
                Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*self.label))
            }
        }
    }

    /// The same; `None` if somebody did not let go of a row.
    pub(super) async fn ask_or_locked(
        &self,
        lane: Lane,
        statement: &str,
        doing: impl Fn() -> String,
    ) -> Result<Option<Answer>> {
        let mut is_repeated = false;
        let mut attempt = 0;
        let mut reconnections = 0;
        loop {
            let (error, is_new) = match self.once(lane, statement).await {
                Ok(rows) => return Ok(Some(Answer { rows, is_repeated })),
                Err(Trouble::Failed { error, is_new }) => (error, is_new),
                Err(Trouble::Silent) => {
                    let why = "the server does not answer";
                    let error = Error::new(ErrorKind::Unavailable, doing(), why);
                    return Err(error.on(&*self.label).effect_is(Effect::Unknown));
                }
            };
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

    async fn once(&self, lane: Lane, statement: &str) -> Result<Vec<MySqlRow>, Trouble> {
        match lane {
            Lane::Common => {
                let mut line = self.line().await?;
                let rows = line.say(statement).await?;
                line.give_back();
                Ok(rows)
            }
            Lane::Leases => {
                let mut kept = self.for_leases.lock().await;
                let mut line = self.own_line(kept.take(), None).await?;
                let rows = line.say(statement).await?;
                line.is_well = true;
                if let Some(Connection::Own(connection)) = line.connection.take() {
                    *kept = Some(*connection);
                }
                Ok(rows)
            }
        }
    }

    /// Several requests that belong together, over one connection. What is begun
    /// in it and not ended is undone.
    pub(super) async fn talk(&self, doing: impl Fn() -> String) -> Result<Talk<'_>> {
        match self.line().await {
            Ok(line) => Ok(Talk { line }),
            Err(trouble) => Err(self.trouble(trouble, doing())),
        }
    }

    fn trouble(&self, trouble: Trouble, doing: String) -> Error {
        match trouble {
            Trouble::Failed { error, .. } => fault(error, doing, &self.label),
            Trouble::Silent => {
                let why = "the server does not answer";
                let error = Error::new(ErrorKind::Unavailable, doing, why);
                error.on(&*self.label).effect_is(Effect::Unknown)
            }
        }
    }

    async fn line(&self) -> Result<Line<'_>, Trouble> {
        let Some(users) = &self.users else {
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
        Ok(Line {
            pool: self,
            connection: Some(Connection::Users(Box::new(connection.map_err(failed)?))),
            _room: None,
            is_new: false,
            is_well: false,
        })
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
        Ok(Line {
            pool: self,
            connection: Some(Connection::Own(Box::new(connection))),
            _room: room,
            is_new,
            is_well: false,
        })
    }
}

/// A connection in use. Without a whole answer nobody knows what still comes over
/// it or what is open on it: then it is closed, which dropping does.
struct Line<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    _room: Option<SemaphorePermit<'a>>,
    is_new: bool,
    is_well: bool,
}

enum Connection {
    Own(Box<MySqlConnection>),
    Users(Box<PoolConnection<MySql>>),
}

impl Line<'_> {
    async fn say(&mut self, statement: &str) -> Result<Vec<MySqlRow>, Trouble> {
        let is_new = self.is_new;
        let answer = tokio::time::timeout(LIMIT, self.run(statement)).await;
        match answer {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => {
                if cure(&error) == Cure::Reconnect {
                    self.pool.has_broken.store(true, Ordering::Release);
                } else if let Ok(Ok(_)) = tokio::time::timeout(LIMIT, self.run("rollback")).await {
                    // An error ends the message but not the transaction.
                    self.give_back();
                }
                Err(Trouble::Failed { error, is_new })
            }
            Err(_) => {
                // Those beside it are as silent.
                lock(&self.pool.idle).clear();
                self.pool.has_broken.store(true, Ordering::Release);
                Err(Trouble::Silent)
            }
        }
    }

    async fn run(&mut self, statement: &str) -> Result<Vec<MySqlRow>, SqlxError> {
        let connection: &mut MySqlConnection = match &mut self.connection {
            Some(Connection::Own(connection)) => connection,
            Some(Connection::Users(connection)) => connection,
            None => return Err(SqlxError::WorkerCrashed),
        };
        let statement = AssertSqlSafe(statement.to_owned());
        connection.fetch_all(raw_sql(statement)).await
    }

    fn give_back(&mut self) {
        self.is_well = true;
        if let Some(Connection::Own(connection)) = self.connection.take_if(is_own) {
            lock(&self.pool.idle).push(*connection);
        }
    }
}

fn is_own(connection: &mut Connection) -> bool {
    matches!(connection, Connection::Own(_))
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if let Some(Connection::Users(connection)) = &mut self.connection
            && !self.is_well
        {
            connection.close_on_drop();
        }
    }
}

/// Several requests over one connection.
pub(super) struct Talk<'a> {
    line: Line<'a>,
}

impl Talk<'_> {
    pub(super) async fn say(
        &mut self,
        statement: &str,
        doing: impl Fn() -> String,
    ) -> Result<Vec<MySqlRow>> {
        let said = self.line.say(statement).await;
        said.map_err(|trouble| self.line.pool.trouble(trouble, doing()))
    }

    /// Nothing is open any more.
    pub(super) fn end(mut self) {
        self.line.give_back();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({})", self.label)
    }
}
