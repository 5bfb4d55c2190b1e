//! Databases to run the same tests on.

use std::path::Path;

use leasehold::fence::{FenceDatabase, FencedSql};
use sqlx_core::Error;
use sqlx_core::pool::{Pool, PoolOptions};
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::row::Row as _;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_core::transaction::Transaction;
use sqlx_mysql::{MySql, MySqlConnection};
use sqlx_postgres::{PgConnection, Postgres};
use sqlx_sqlite::{Sqlite, SqliteConnection};

/// What tests do with any of them.
pub(crate) trait Place: FenceDatabase {
    /// Begins a transaction in each isolation level that there is.
    const LEVELS: &'static [&'static str];
    /// A number that grows with each row.
    const GROWING: &'static str;

    async fn execute(connection: &mut Self::Connection, text: &str) -> Result<(), Error>;

    /// The numbers that a query finds.
    async fn numbers(connection: &mut Self::Connection, text: &str) -> Result<Vec<i64>, Error>;
}

impl Place for Postgres {
    const LEVELS: &'static [&'static str] = &[
        "begin isolation level read committed",
        "begin isolation level repeatable read",
        "begin isolation level serializable",
    ];
    const GROWING: &'static str = "bigint generated always as identity primary key";

    async fn execute(connection: &mut PgConnection, text: &str) -> Result<(), Error> {
        let statement = raw_sql(AssertSqlSafe(text.to_owned()));
        statement.execute(connection).await.map(|_| ())
    }

    async fn numbers(connection: &mut PgConnection, text: &str) -> Result<Vec<i64>, Error> {
        let statement = raw_sql(AssertSqlSafe(text.to_owned()));
        let rows = statement.fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }
}

impl Place for MySql {
    const LEVELS: &'static [&'static str] = &[
        "set transaction isolation level read committed; begin",
        "set transaction isolation level repeatable read; begin",
        "set transaction isolation level serializable; begin",
    ];
    const GROWING: &'static str = "bigint auto_increment primary key";

    async fn execute(connection: &mut MySqlConnection, text: &str) -> Result<(), Error> {
        let statement = raw_sql(AssertSqlSafe(text.to_owned()));
        statement.execute(connection).await.map(|_| ())
    }

    async fn numbers(connection: &mut MySqlConnection, text: &str) -> Result<Vec<i64>, Error> {
        let statement = raw_sql(AssertSqlSafe(text.to_owned()));
        let rows = statement.fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }
}

impl Place for Sqlite {
    const LEVELS: &'static [&'static str] = &["begin", "begin immediate"];
    const GROWING: &'static str = "integer primary key autoincrement";

    async fn execute(connection: &mut SqliteConnection, text: &str) -> Result<(), Error> {
        let statement = raw_sql(AssertSqlSafe(text.to_owned()));
        statement.execute(connection).await.map(|_| ())
    }

    async fn numbers(connection: &mut SqliteConnection, text: &str) -> Result<Vec<i64>, Error> {
        let statement = raw_sql(AssertSqlSafe(text.to_owned()));
        let rows = statement.fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }
}

/// A database with a value, a history and the table for marks.
pub(crate) async fn furnished<DB: Place>(url: &str) -> Pool<DB> {
    let pool = connect(url).await;
    let mut connection = pool.acquire().await.unwrap();
    let tables = format!(
        "create table stock (number bigint not null);
         insert into stock values (0);
         create table history (id {}, token bigint not null, earlier bigint not null);",
        DB::GROWING
    );
    for statement in tables.split_terminator(';') {
        DB::execute(&mut connection, statement).await.unwrap();
    }
    // It may be there.
    for _ in 0..2 {
        FencedSql::create_table::<DB>(&mut connection)
            .await
            .unwrap();
    }
    drop(connection);
    pool
}

pub(crate) async fn connect<DB: Place>(url: &str) -> Pool<DB> {
    PoolOptions::new()
        .max_connections(8)
        .connect(url)
        .await
        .unwrap()
}

/// A new file, written without waiting for the disk.
pub(crate) fn sqlite(folder: &Path) -> String {
    let path = folder.join("data.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.pragma_update(None, "journal_mode", "wal").unwrap();
    format!("sqlite:{}?mode=rw", path.display())
}

/// The value, and one more in its place.
pub(crate) async fn add<DB: Place>(
    transaction: &mut Transaction<'_, DB>,
    token: u64,
) -> Result<(), Error> {
    let connection = &mut **transaction;
    let before = DB::numbers(connection, "select number from stock").await?[0];
    let after = before + 1;
    DB::execute(connection, &format!("update stock set number = {after}")).await?;
    let told = format!("insert into history (token, earlier) values ({token}, {before})");
    DB::execute(connection, &told).await
}

/// Adds to the history, with how much of it is there. Nothing but the fence
/// keeps two that do so at the same time apart: they write no row in common.
pub(crate) async fn tell<DB: Place>(
    transaction: &mut Transaction<'_, DB>,
    token: u64,
) -> Result<(), Error> {
    let connection = &mut **transaction;
    let before = DB::numbers(connection, "select count(*) from history").await?[0];
    let told = format!("insert into history (token, earlier) values ({token}, {before})");
    DB::execute(connection, &told).await
}
