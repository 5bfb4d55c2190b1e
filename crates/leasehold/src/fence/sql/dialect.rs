//! What a database must be able to do to keep marks, and what its errors mean.

use std::future::Future;

use sqlx_core::database::Database;
use sqlx_core::error::{DatabaseError, Error as SqlxError};

use crate::error::{Error, ErrorKind};

/// The layout of the table that this code reads and writes.
const LAYOUT: i32 = 1;

/// Locks the row until the transaction ends, and says what it has. It changes
/// the row, too, where a lock would seem enough: under repeatable read the next
/// transaction that waited for it would else go on with a picture of the data
/// from before it waited. As it is, that one is told to begin again.
const TAKE: &str = "update leasehold_fence set turn = turn + 1 where resource = $1 \
                    returning token, holder, turn, layout";
const ADD: &str = "insert into leasehold_fence (resource, token, holder, turn, layout) \
                   values ($1, 0, '', 0, 1) on conflict do nothing";
const RAISE: &str = "update leasehold_fence set token = $2, holder = $3 where resource = $1";
const LOOK: &str = "select token, holder, turn, layout from leasehold_fence \
                    where layout <> 1 or resource = $1 limit 1";

/// A row: token, holder, turn, layout.
pub(super) type Row = (i64, String, i64, i32);

/// What goes into a row.
pub(super) type Mark = (i64, String);

/// The few statements in the words of one database.
pub trait Dialect: Database {
    /// Makes the table, unless it is there.
    const TABLE: &'static str;
    /// Adds the row of a resource, unless it is there.
    const ADD: &'static str = ADD;
    /// Sets the mark.
    const RAISE: &'static str = RAISE;
    /// Finds a row of another layout.
    const LOOK: &'static str = LOOK;

    /// Whether a claim adds its row before it has looked for one.
    const ADDS_FIRST: bool = false;

    /// Runs a statement with a resource.
    fn ask(
        connection: &mut Self::Connection,
        statement: &'static str,
        resource: &str,
    ) -> impl Future<Output = Result<Option<Row>, SqlxError>> + Send;

    /// Sets the mark of a resource. Returns how many rows it has found.
    fn raise(
        connection: &mut Self::Connection,
        resource: &str,
        mark: Mark,
    ) -> impl Future<Output = Result<u64, SqlxError>> + Send;

    /// Runs statements without values.
    fn run(
        connection: &mut Self::Connection,
        statements: &'static str,
    ) -> impl Future<Output = Result<(), SqlxError>> + Send;

    /// Locks the row of a resource to the end of the transaction and reads it.
    fn take(
        connection: &mut Self::Connection,
        resource: &str,
    ) -> impl Future<Output = Result<Option<Row>, SqlxError>> + Send {
        Self::ask(connection, TAKE, resource)
    }

    /// What an error of the server means.
    fn sort(error: &dyn DatabaseError) -> Sort;
}

/// What is to be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Another transaction was in the way.
    Again,
    NoTable,
    OtherTable,
    Denied,
    Other,
}

/// A row of the layout that we know.
pub(super) fn known(row: Row, doing: impl Fn() -> String) -> Result<Row, Error> {
    match row.3 {
        LAYOUT => Ok(row),
        other => {
            let why = format!("the table leasehold_fence is of version {other}, not {LAYOUT}");
            Err(Error::new(ErrorKind::Config, doing(), why))
        }
    }
}

/// Makes the table unless it is there, and makes sure that it is ours.
pub(super) async fn make<DB: Dialect>(connection: &mut DB::Connection) -> Result<(), Error> {
    let doing = || "make the table leasehold_fence".to_owned();
    let made = DB::run(connection, DB::TABLE).await;
    made.map_err(|error| trouble::<DB>(error, doing()))?;
    let odd = DB::ask(connection, DB::LOOK, "").await;
    let odd = odd.map_err(|error| trouble::<DB>(error, doing()))?;
    odd.map_or(Ok(()), |row| known(row, doing).map(|_| ()))
}

/// Whatever it was, it is undone with its transaction.
pub(super) fn trouble<DB: Dialect>(error: SqlxError, doing: String) -> Error {
    let (sort, said) = match &error {
        SqlxError::Database(said) => (DB::sort(&**said), said.message().to_owned()),
        // A column that is not what it should be.
        SqlxError::ColumnDecode { .. } => (Sort::OtherTable, error.to_string()),
        other => (Sort::Other, other.to_string()),
    };
    let (kind, why) = match sort {
        Sort::Again => (
            ErrorKind::Unavailable,
            format!("another transaction was in the way; roll back and begin again ({said})"),
        ),
        Sort::NoTable => (
            ErrorKind::Config,
            format!("there is no table for marks; `FencedSql::create_table` makes it ({said})"),
        ),
        Sort::OtherTable => (
            ErrorKind::Config,
            format!("the table leasehold_fence is of another version ({said})"),
        ),
        Sort::Denied => (ErrorKind::Denied, said),
        Sort::Other => (ErrorKind::Unavailable, said),
    };
    Error::new(kind, doing, why).from_source(error)
}
