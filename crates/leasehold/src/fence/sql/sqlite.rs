//! Marks in SQLite.

use sqlx_core::error::{DatabaseError, Error as SqlxError};
use sqlx_core::query::query;
use sqlx_core::query_as::query_as;
use sqlx_core::raw_sql::raw_sql;
use sqlx_sqlite::{Sqlite, SqliteConnection};

use super::dialect::{Dialect, Mark, Row, Sort};

impl Dialect for Sqlite {
    const TABLE: &'static str = include_str!("sqlite.sql");

    async fn ask(
        connection: &mut SqliteConnection,
        statement: &'static str,
        resource: &str,
    ) -> Result<Option<Row>, SqlxError> {
        let query = query_as(statement).bind(resource.to_owned());
        query.fetch_optional(connection).await
    }

    async fn raise(
        connection: &mut SqliteConnection,
        resource: &str,
        (token, holder): Mark,
    ) -> Result<u64, SqlxError> {
        let query = query(Self::RAISE).bind(resource.to_owned());
        let done = query.bind(token).bind(holder).execute(connection).await?;
        Ok(done.rows_affected())
    }

    async fn run(
        connection: &mut SqliteConnection,
        statements: &'static str,
    ) -> Result<(), SqlxError> {
        raw_sql(statements).execute(connection).await.map(|_| ())
    }

    fn sort(error: &dyn DatabaseError) -> Sort {
        const CHECK: i64 = 275;
        let code = error.code().and_then(|code| code.parse::<i64>().ok());
        let message = error.message();
        match code {
            Some(CHECK) => Sort::OtherTable,
            // Busy and locked, however they came about; the upper bits say.
            Some(code) if matches!(code & 0xff, 5 | 6) => Sort::Again,
            Some(code) if matches!(code & 0xff, 3 | 8) => Sort::Denied,
            // It has no codes of its own for these.
            Some(1) if message.starts_with("no such table") => Sort::NoTable,
            Some(1) if message.contains("column") => Sort::OtherTable,
            _ => Sort::Other,
        }
    }
}
