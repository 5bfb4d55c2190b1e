//! PostgreSQL without leasehold, through the same client and pool: what a lock
//! costs at least. For measuring only.

use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_postgres::PgConnection;

use super::PostgresEngine;
use super::config::PostgresConfig;
use super::fault::fault;
use super::pool::Pool;
use super::text::quoted;
use crate::error::Result;

/// One row for each name, updated twice per lock.
#[derive(Debug)]
pub struct BarePostgres {
    pool: Pool,
    table: String,
}

impl BarePostgres {
    pub(crate) async fn connect(config: &PostgresConfig, names: &[String]) -> Result<Self> {
        let engine = PostgresEngine::connect(config).await?;
        let (pool, table) = (engine.pool, format!("{}.bare", engine.schema));
        let names: Vec<_> = names
            .iter()
            .map(|name| format!("({})", quoted(name)))
            .collect();
        let statement = format!(
            "create table if not exists {table} (name text primary key, owner bigint, \
             expires timestamptz) with (fillfactor = 50); \
             insert into {table} values {} on conflict do nothing",
            names.join(", ")
        );
        pool.ask(&statement, || "measure".into()).await?;
        Ok(Self { pool, table })
    }

    /// Takes and gives back the lease in a row.
    ///
    /// # Errors
    /// What the server says.
    ///
    /// # Cancel safety
    /// The row may stay taken.
    pub async fn cycle(&self, name: &str) -> Result<()> {
        let (table, name) = (&self.table, quoted(name));
        let take = format!(
            "update {table} set owner = 1, expires = clock_timestamp() + interval '10 s' \
             where name = {name}"
        );
        self.pool.ask(&take, || "measure".into()).await?;
        let give = format!("update {table} set owner = null where name = {name}");
        self.pool.ask(&give, || "measure".into()).await?;
        Ok(())
    }

    /// Removes the table.
    ///
    /// # Errors
    /// What the server says.
    ///
    /// # Cancel safety
    /// The table may stay.
    pub async fn close(&self) -> Result<()> {
        let drop = format!("drop table if exists {}", self.table);
        self.pool.ask(&drop, || "measure".into()).await?;
        Ok(())
    }
}

/// Advisory locks, each of so many tasks on a connection of its own.
#[derive(Debug)]
pub struct BareAdvisory {
    connections: Vec<tokio::sync::Mutex<PgConnection>>,
    label: String,
}

impl BareAdvisory {
    pub(crate) async fn connect(config: &PostgresConfig, tasks: usize) -> Result<Self> {
        let (label, route) = (config.label(), config.route());
        let mut connections = Vec::new();
        for _ in 0..tasks {
            let connection = route.connect().await;
            let connection = connection.map_err(|error| fault(error, "measure".into(), &label))?;
            connections.push(tokio::sync::Mutex::new(connection));
        }
        Ok(Self { connections, label })
    }

    /// Waits for a lock, has it, and gives it back.
    ///
    /// # Errors
    /// What the server says.
    ///
    /// # Cancel safety
    /// The lock may stay taken until the connection ends.
    pub async fn cycle(&self, task: usize, name: &str) -> Result<()> {
        let key = format!("hashtextextended({}, 0)", quoted(name));
        let mut connection = self.connections[task].lock().await;
        for text in ["lock", "unlock"].map(|verb| format!("select pg_advisory_{verb}({key})")) {
            let asked = connection.fetch_all(raw_sql(AssertSqlSafe(text))).await;
            asked.map_err(|error| fault(error, "measure".into(), &self.label))?;
        }
        Ok(())
    }
}
