//! MySQL without leasehold, through the same client and pool: what a lock costs
//! at least. For measuring only.

use std::sync::Arc;

use sqlx_core::connection::ConnectOptions;
use sqlx_mysql::MySqlConnection;

use super::MysqlEngine;
use super::config::MysqlConfig;
use super::fault::fault;
use super::line::run;
use super::pool::Pool;
use super::text::name as name_literal;
use crate::error::Result;

/// One row for each name, updated twice per lock.
#[derive(Debug)]
pub struct BareMysql {
    pool: Arc<Pool>,
    table: String,
}

impl BareMysql {
    pub(crate) async fn connect(config: &MysqlConfig, names: &[String]) -> Result<Self> {
        let engine = MysqlEngine::connect(config).await?;
        let (pool, table) = (engine.pool, engine.tables.bare);
        let names: Vec<_> = names
            .iter()
            .map(|name| format!("({}, null, utc_timestamp(6))", name_literal(name)))
            .collect();
        let statement = format!(
            "create table if not exists {table} (name varbinary(512) primary key, owner bigint, \
             expires datetime(6)) engine = InnoDB; insert ignore into {table} values {}",
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
        let (table, name) = (&self.table, name_literal(name));
        let take = format!(
            "update {table} set owner = 1, expires = utc_timestamp(6) + interval 10 second \
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

/// Named locks, each of so many tasks on a connection of its own.
#[derive(Debug)]
pub struct BareNamedLock {
    connections: Vec<tokio::sync::Mutex<MySqlConnection>>,
    label: String,
}

impl BareNamedLock {
    pub(crate) async fn connect(config: &MysqlConfig, tasks: usize) -> Result<Self> {
        let (label, options) = (config.label(), config.options());
        let mut connections = Vec::new();
        for _ in 0..tasks {
            let connection = options.connect().await;
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
        let name = name_literal(name);
        let mut connection = self.connections[task].lock().await;
        for text in [
            format!("select get_lock({name}, 60)"),
            format!("select release_lock({name})"),
        ] {
            let asked = run(&mut connection, &text).await;
            asked.map_err(|error| fault(error, "measure".into(), &self.label))?;
        }
        Ok(())
    }
}
