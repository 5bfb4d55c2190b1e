//! PostgreSQL without leasehold, through the same client and pool: what a lock
//! costs at least. For measuring only.

use super::PostgresEngine;
use super::config::PostgresConfig;
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
