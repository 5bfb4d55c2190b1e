//! Marks in MySQL and MariaDB.

use sqlx_core::error::{DatabaseError, Error as SqlxError};
use sqlx_core::query::query;
use sqlx_core::query_as::query_as;
use sqlx_core::raw_sql::raw_sql;
use sqlx_mysql::{MySql, MySqlConnection, MySqlDatabaseError};

use super::dialect::{Dialect, Mark, Row, Sort};

const LOCK: &str = "select token, holder, turn, layout from leasehold_fence \
                    where resource = ? for update";
const SEE: &str = "select token, holder, turn, layout from leasehold_fence where resource = ?";
const TURN: &str = "update leasehold_fence set turn = turn + 1 where resource = ?";

impl Dialect for MySql {
    const TABLE: &'static str = include_str!("mysql.sql");
    /// It changes nothing in a row that is there: a change of our own would hide
    /// from `take` that the transaction's picture is old.
    const ADD: &'static str = "insert into leasehold_fence (resource, token, holder, turn, layout) \
                               values (?, 0, '', 0, 1) on duplicate key update turn = turn";
    const RAISE: &'static str =
        "update leasehold_fence set token = ?, holder = ? where resource = ?";
    const LOOK: &'static str = "select token, holder, turn, layout from leasehold_fence \
                                where layout <> 1 or resource = ? limit 1";

    /// Who looks for a row that is not there with a lock locks the gap in which
    /// it would be, and so would others for resources of their own. Then none of
    /// them could add its row.
    const ADDS_FIRST: bool = true;

    async fn ask(
        connection: &mut MySqlConnection,
        statement: &'static str,
        resource: &str,
    ) -> Result<Option<Row>, SqlxError> {
        let query = query_as(statement).bind(resource.to_owned());
        query.fetch_optional(connection).await
    }

    async fn raise(
        connection: &mut MySqlConnection,
        resource: &str,
        (token, holder): Mark,
    ) -> Result<u64, SqlxError> {
        let query = query(Self::RAISE).bind(token).bind(holder);
        let done = query.bind(resource.to_owned()).execute(connection).await?;
        Ok(done.rows_affected())
    }

    async fn run(
        connection: &mut MySqlConnection,
        statements: &'static str,
    ) -> Result<(), SqlxError> {
        raw_sql(statements).execute(connection).await.map(|_| ())
    }

    /// A transaction here goes on with the picture of the data that its first
    /// read made, and is not told that what it locks has changed since. So the
    /// row is looked at by both ways: should they differ, whatever is read next
    /// would be old.
    async fn take(
        connection: &mut MySqlConnection,
        resource: &str,
    ) -> Result<Option<Row>, SqlxError> {
        let Some(row) = Self::ask(connection, LOCK, resource).await? else {
            return Ok(None);
        };
        if Self::ask(connection, SEE, resource).await?.as_ref() != Some(&row) {
            let why = "the transaction has read before it claimed, and what it read is old; \
                       roll back and claim first";
            return Err(SqlxError::InvalidArgument(why.into()));
        }
        Self::ask(connection, TURN, resource).await?;
        Ok(Some(row))
    }

    fn sort(error: &dyn DatabaseError) -> Sort {
        let number = error.try_downcast_ref::<MySqlDatabaseError>();
        match number.map(MySqlDatabaseError::number) {
            // A deadlock, a lock that took too long, a row that has changed.
            Some(1213 | 1205 | 1020) => Sort::Again,
            Some(1146 | 1046) => Sort::NoTable,
            // A column is missing; another layout's check.
            Some(1054 | 1136 | 1364 | 3819 | 4025) => Sort::OtherTable,
            // No right to it; a transaction or a server that only reads.
            Some(1142..=1143 | 1044 | 1792 | 1290) => Sort::Denied,
            _ => Sort::Other,
        }
    }
}
