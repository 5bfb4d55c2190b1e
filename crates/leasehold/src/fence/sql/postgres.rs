//! Marks in PostgreSQL.

use sqlx_core::error::{DatabaseError, Error as SqlxError};
use sqlx_core::query::query;
use sqlx_core::query_as::query_as;
use sqlx_core::raw_sql::raw_sql;
use sqlx_postgres::{PgConnection, Postgres};

use super::dialect::{Dialect, Mark, Row, Sort};

impl Dialect for Postgres {
    const TABLE: &'static str = include_str!("postgres.sql");

    async fn ask(
        connection: &mut PgConnection,
        statement: &'static str,
        resource: &str,
    ) -> Result<Option<Row>, SqlxError> {
        let query = query_as(statement).bind(resource.to_owned());
        query.fetch_optional(connection).await
    }

    async fn raise(
        connection: &mut PgConnection,
        resource: &str,
        (token, holder): Mark,
    ) -> Result<u64, SqlxError> {
        let query = query(Self::RAISE).bind(resource.to_owned());
        let done = query.bind(token).bind(holder).execute(connection).await?;
        Ok(done.rows_affected())
    }

    async fn run(connection: &mut PgConnection, statements: &'static str) -> Result<(), SqlxError> {
        raw_sql(statements).execute(connection).await.map(|_| ())
    }

    fn sort(error: &dyn DatabaseError) -> Sort {
        match error.code().as_deref() {
            // A serialisation failure, a deadlock, a lock that took too long.
            Some("40001" | "40P01" | "55P03") => Sort::Again,
            Some("42P01" | "3F000") => Sort::NoTable,
            // A column is missing or of another type; another layout's check.
            Some("42703" | "42804" | "42883" | "23514" | "42P10") => Sort::OtherTable,
            // No right to it; a transaction or a server that only reads.
            Some("42501" | "25006") => Sort::Denied,
            _ => Sort::Other,
        }
    }
}
