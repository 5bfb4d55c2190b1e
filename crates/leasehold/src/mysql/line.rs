//! A connection while it is in use.

use std::sync::atomic::Ordering;

use futures_util::TryStreamExt;
use sqlx_core::Either;
use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::pool::PoolConnection;
use sqlx_core::query::query_with;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_mysql::{MySql, MySqlConnection, MySqlRow};
use tokio::sync::SemaphorePermit;

use super::fault::{Cure, cure};
use super::lock;
use super::pool::{Answer, LIMIT, Pool, Trouble};
use super::prepared::Saying;
use crate::error::Result;

/// How long a connection may stand still inside a transaction of ours before the
/// server ends it: whoever stopped there has rows that others wait for.
const FROZEN: &str = "set @leasehold_patience = @@wait_timeout, session wait_timeout = 3";
const THAWED: &str = "set session wait_timeout = @leasehold_patience";

/// As `FROZEN` for a talk, whose statements are transactions of their own unless they begin
/// one, whatever the connection is set to. It fails inside a transaction that somebody
/// left open, which setting autocommit would commit.
const TALK_BEGINS: &str = "set transaction isolation level read committed; \
     set @leasehold_patience = @@wait_timeout, @leasehold_autocommit = @@autocommit, \
     session wait_timeout = 3, session autocommit = 1";
const TALK_ENDS: &str = "set session wait_timeout = @leasehold_patience, \
     session autocommit = @leasehold_autocommit";

/// As `FROZEN` for a message that locks rows one after the other. Usually nobody can stop
/// in the middle of one; but if the server refuses the second row it keeps the first
/// until it is told to undo that.
pub(super) fn guarded(message: &str) -> String {
    format!("{FROZEN}; {message}; {THAWED}")
}

/// A connection in use. Without a whole answer nobody knows what still comes over
/// it or what is open on it: then it is closed, which dropping does.
pub(super) struct Line<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    _room: Option<SemaphorePermit<'a>>,
    pub(super) is_new: bool,
    is_well: bool,
    /// It is for several requests, and of no use after the first that fails.
    is_talk: bool,
}

pub(super) enum Connection {
    Own(Box<MySqlConnection>),
    Users(Box<PoolConnection<MySql>>),
}

impl<'a> Line<'a> {
    pub(super) fn over(
        pool: &'a Pool,
        connection: Connection,
        room: Option<SemaphorePermit<'a>>,
        is_new: bool,
    ) -> Self {
        Self {
            pool,
            connection: Some(connection),
            _room: room,
            is_new,
            is_well: false,
            is_talk: false,
        }
    }

    pub(super) async fn say(&mut self, saying: impl Into<Saying<'_>>) -> Result<Answer, Trouble> {
        let saying = saying.into();
        let is_new = self.is_new;
        self.is_well = false;
        let answer = tokio::time::timeout(LIMIT, self.run(saying)).await;
        match answer {
            Ok(Ok(answer)) => {
                // A talk ends when it says so: until then something may be open.
                self.is_well = !self.is_talk;
                Ok(answer)
            }
            Ok(Err(error)) => {
                let undo = undo_of(saying);
                if cure(&error) == Cure::Reconnect {
                    self.pool.has_broken.store(true, Ordering::Release);
                    if !is_new {
                        // Those that lay beside it are likely as stale. Whoever went
                        // over one of them would be in doubt for nothing.
                        lock(&self.pool.idle).clear();
                    }
                } else if self.is_talk {
                    // Closing it undoes what was begun.
                } else if let Ok(Ok(_)) =
                    tokio::time::timeout(LIMIT, self.run(Saying::Text(&undo))).await
                {
                    // An error ends the message but not the transaction.
                    self.is_well = true;
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

    async fn run(&mut self, saying: Saying<'_>) -> Result<Answer, SqlxError> {
        let connection: &mut MySqlConnection = match &mut self.connection {
            Some(Connection::Own(connection)) => connection,
            Some(Connection::Users(connection)) => connection,
            None => return Err(SqlxError::WorkerCrashed),
        };
        run(connection, saying).await
    }

    /// The connection, if it is one of ours and its answer was whole, or what it
    /// refused is undone.
    pub(super) fn keep(&mut self) -> Option<MySqlConnection> {
        let is_well = self.is_well;
        match self
            .connection
            .take_if(|connection| is_well && is_own(connection))
        {
            Some(Connection::Own(connection)) => Some(*connection),
            _ => None,
        }
    }

    /// The connection, as it is, if it is one of ours.
    pub(super) fn take_own(&mut self) -> Option<MySqlConnection> {
        match self.connection.take_if(|connection| is_own(connection)) {
            Some(Connection::Own(connection)) => Some(*connection),
            _ => None,
        }
    }

    pub(super) fn give_back(&mut self) {
        if let Some(connection) = self.keep() {
            lock(&self.pool.idle).push(connection);
        }
    }
}

/// Says it, whole, and hears the whole answer.
pub(super) async fn run(
    connection: &mut MySqlConnection,
    saying: impl Into<Saying<'_>>,
) -> Result<Answer, SqlxError> {
    let mut answer = Answer {
        rows: Vec::new(),
        matched: 0,
        drawn: 0,
        is_repeated: false,
    };
    let mut parts = match saying.into() {
        Saying::Text(text) => connection.fetch_many(raw_sql(AssertSqlSafe(text.to_owned()))),
        Saying::Prepared(prepared) => {
            let arguments = prepared.arguments().map_err(SqlxError::Encode)?;
            connection.fetch_many(query_with(AssertSqlSafe(prepared.form()), arguments))
        }
    };
    while let Some(part) = parts.try_next().await? {
        match part {
            Either::Left(done) => {
                answer.matched += done.rows_affected();
                answer.drawn = answer.drawn.max(done.last_insert_id());
            }
            Either::Right(row) => answer.rows.push(row),
        }
    }
    Ok(answer)
}

/// What puts a connection right after the server refused a statement.
pub(super) fn undo_of<'a>(saying: impl Into<Saying<'a>>) -> String {
    match saying.into() {
        Saying::Text(text) if text.starts_with(FROZEN) => format!("rollback; {THAWED}"),
        Saying::Text(_) | Saying::Prepared(_) => "rollback".into(),
    }
}

fn is_own(connection: &Connection) -> bool {
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
    is_begun: bool,
}

impl<'a> Talk<'a> {
    pub(super) fn over(mut line: Line<'a>) -> Self {
        line.is_talk = true;
        Self {
            line,
            is_begun: false,
        }
    }

    pub(super) async fn say(
        &mut self,
        statement: &str,
        doing: impl Fn() -> String,
    ) -> Result<Vec<MySqlRow>> {
        let said = match std::mem::replace(&mut self.is_begun, true) {
            true => self.line.say(statement).await,
            false => self.line.say(&format!("{TALK_BEGINS}; {statement}")).await,
        };
        let said = said.map(|answer| answer.rows);
        said.map_err(|trouble| self.line.pool.trouble(trouble, doing()))
    }

    /// Nothing is open any more.
    pub(super) async fn end(mut self) {
        if self.line.say(TALK_ENDS).await.is_ok() {
            self.line.is_well = true;
            self.line.give_back();
        }
    }
}
