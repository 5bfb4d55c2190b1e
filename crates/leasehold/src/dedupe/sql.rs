//! Marks of messages in the user's own database, over `sqlx`: the effect and the
//! mark are in one transaction, and the key is unique.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlite;

use std::future::Future;

use sqlx_core::error::Error as SqlxError;
use sqlx_core::transaction::Transaction;

use super::{Begun, Dedupe, Work, leave};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::{FenceDatabase, Sort, outermost};
use crate::guard::Lost;

/// A database of `sqlx` that can keep the marks of messages: PostgreSQL (feature
/// `postgres`), MySQL and MariaDB (feature `mysql`), SQLite (feature
/// `sqlx-sqlite`).
pub trait DoneDatabase: Done {}

impl<DB: Done> DoneDatabase for DB {}

/// The few statements in the words of one database.
pub trait Done: FenceDatabase {
    /// Makes the table, unless it is there.
    const DONE_TABLE: &'static str;

    /// The time, in seconds since 1970, and the result of a message, if it is done.
    fn find(
        connection: &mut Self::Connection,
        message: &str,
    ) -> impl Future<Output = Result<(i64, Option<Vec<u8>>), SqlxError>> + Send;

    /// Marks a message as done, for so many seconds at least, unless it is later
    /// than `until`; whether it did. Fails if it is done.
    fn mark(
        connection: &mut Self::Connection,
        message: &str,
        result: &[u8],
        keep: i64,
        until: i64,
    ) -> impl Future<Output = Result<bool, SqlxError>> + Send;

    /// Removes some marks whose time is over; how many.
    fn sweep(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<u64, SqlxError>> + Send;
}

/// The table of messages that are done, `leasehold_done`, in a database of yours.
#[derive(Debug, Clone, Copy)]
pub struct DoneTable;

impl DoneTable {
    /// The statements that make it. They may be run again.
    pub fn script<DB: DoneDatabase>() -> &'static str {
        DB::DONE_TABLE
    }

    /// Makes it unless it is there. Not for use inside a transaction: some
    /// databases end it when a table is made.
    ///
    /// # Errors
    /// `Denied`; `Unavailable`.
    ///
    /// # Cancel safety
    /// The table may have been made.
    pub async fn create<DB: DoneDatabase>(connection: &mut DB::Connection) -> Result<()> {
        let made = DB::run(connection, DB::DONE_TABLE).await;
        made.map_err(|error| trouble::<DB>(error, "make the table leasehold_done".into()))
    }

    /// Removes marks whose retention is over, at most a thousand; says how many.
    /// Nothing else removes them: call it now and then. By the database's clock,
    /// which in SQLite is the one of the machine that asks: on a machine whose clock
    /// is ahead by more than the retention it removes marks that still count.
    ///
    /// # Errors
    /// `Config` if there is no such table; `Denied`; `Unavailable`.
    ///
    /// # Cancel safety
    /// They may have been removed.
    pub async fn sweep<DB: DoneDatabase>(connection: &mut DB::Connection) -> Result<u64> {
        let swept = DB::sweep(connection).await;
        swept.map_err(|error| trouble::<DB>(error, "sweep the table leasehold_done".into()))
    }
}

impl Dedupe {
    /// Asks for a message that is completed by [`Work::complete_in`]: what counts
    /// is the mark in the database. Any store will do for the lock; one that keeps
    /// no memos for a time counts no attempts. Not for use inside a transaction,
    /// which may have an old picture of the table.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin); `Unsupported` only if `max_attempts` is set
    /// and the store cannot count; `Config` if there is no table
    /// ([`DoneTable::create`] makes it).
    ///
    /// # Cancel safety
    /// As for [`begin`](Self::begin).
    pub async fn begin_in<DB: DoneDatabase>(
        &self,
        connection: &mut DB::Connection,
    ) -> Result<Begun> {
        let name = self.check()?;
        let promises = self.session.core().promises;
        if promises.retention || self.max_attempts.is_some() {
            super::check_retention(&promises, self.retention, || self.doing())?;
        }
        let guard = self.mutex(&name).try_lock().await?;
        let found = DB::find(connection, &self.key).await;
        let (now, found) = found.map_err(|error| trouble::<DB>(error, self.doing()))?;
        match (guard, found) {
            (Some(guard), Some(result)) => leave(guard, Begun::Done(result)).await,
            (None, Some(result)) => Ok(Begun::Done(result)),
            (Some(guard), None) if promises.retention => {
                Ok(self.count(guard, &name).await?.at(now))
            }
            (Some(guard), None) => Ok(Begun::Started(self.work(guard, 0)).at(now)),
            (None, None) => self.in_progress(&name).await,
        }
    }
}

impl Begun {
    fn at(self, now: i64) -> Self {
        match self {
            Self::Started(work) => Self::Started(Work {
                begun_in: Some(now),
                ..work
            }),
            other => other,
        }
    }
}

impl Work {
    /// The message is done if this transaction commits, and only then: what is
    /// written in it and the mark are there together or not at all. The lock need
    /// not last until then. Its key is unique, so of two transactions that mark
    /// one message one is refused, whoever was paused and for however long: whoever
    /// began longer ago than the retention, and might not find a mark that was swept,
    /// is refused too.
    ///
    /// Whoever asks next has to ask with [`Dedupe::begin_in`], which looks for the
    /// mark. Give the lock back after the commit, by dropping the work or by
    /// [`release`](Self::release).
    ///
    /// Roll back after any error of any statement in the transaction, never repeat
    /// one statement: on MySQL and SQLite some errors (a deadlock, a full disk) end
    /// the transaction, and what follows is done without the mark. On MySQL so do
    /// statements that make, change or empty tables (`truncate`).
    ///
    /// # Errors
    /// `AlreadyDone` if it is: roll back. `Lost` if it was begun longer ago than the
    /// retention: roll back. `Usage` if the result has more than
    /// [`LONGEST_RESULT`](super::LONGEST_RESULT) bytes, or if this is a savepoint
    /// inside a transaction; `Config` if there is no table; `Unavailable` if
    /// another transaction was in the way. The transaction is then of no more use.
    ///
    /// # Cancel safety
    /// Roll the transaction back.
    pub async fn complete_in<DB: DoneDatabase>(
        &self,
        transaction: &mut Transaction<'_, DB>,
        result: impl AsRef<[u8]>,
    ) -> Result<()> {
        let result = result.as_ref();
        self.check(result)?;
        // A savepoint may be rolled back by itself, and the effect would stay.
        let connection = outermost::<DB>(transaction, &|| self.completing()).await?;
        let keep = i64::try_from(self.retention.as_secs()).unwrap_or(i64::MAX / 4);
        let keep = keep.min(i64::MAX / 4) + 1;
        // Another's mark, made since, is there until then.
        let until = self.begun_in.map_or(i64::MAX, |begun| begun + keep);
        let marked = DB::mark(connection, &self.key, result, keep, until).await;
        match marked.map_err(|error| trouble::<DB>(error, self.completing()))? {
            true => Ok(()),
            false => {
                let why = "it was begun longer ago than it is remembered: roll back";
                let kind = ErrorKind::Lost(Lost::HoldLimit);
                Err(Error::new(kind, self.completing(), why))
            }
        }
    }
}

/// Whatever it was, it is undone with its transaction.
fn trouble<DB: DoneDatabase>(error: SqlxError, doing: String) -> Error {
    let (kind, why) = match &error {
        SqlxError::Database(said) if said.is_unique_violation() => (
            ErrorKind::AlreadyDone,
            "another transaction has done it: roll back".to_owned(),
        ),
        SqlxError::Database(said) => {
            let why = said.message();
            match DB::sort(&**said) {
                Sort::Again => (
                    ErrorKind::Unavailable,
                    format!(
                        "another transaction was in the way; roll back and begin again ({why})"
                    ),
                ),
                Sort::NoTable => (
                    ErrorKind::Config,
                    format!(
                        "there is no table leasehold_done; `DoneTable::create` makes it ({why})"
                    ),
                ),
                Sort::OtherTable => (
                    ErrorKind::Config,
                    format!("the table leasehold_done is of another version ({why})"),
                ),
                Sort::Denied => (ErrorKind::Denied, why.to_owned()),
                Sort::Other => (ErrorKind::Unavailable, why.to_owned()),
            }
        }
        other => (ErrorKind::Unavailable, other.to_string()),
    };
    Error::new(kind, doing, why).from_source(error)
}
