//! What a program of one's own does with each kind of database.

use leasehold::{Guard, Result, Session, mysql, postgres};
use sqlx_core::pool::{Pool, PoolOptions};
use sqlx_core::transaction::Transaction;
use sqlx_mysql::MySql;
use sqlx_postgres::Postgres;

use super::Site;
use crate::fence::place::Place;

pub(super) trait Client: Place {
    async fn connect_with(pool: Pool<Self>, options: &str) -> Result<Session>;

    async fn fence(guard: &Guard, transaction: &mut Transaction<'_, Self>) -> Result<()>;
}

impl Client for Postgres {
    async fn connect_with(pool: Pool<Self>, options: &str) -> Result<Session> {
        postgres::connect_with(pool, options).await
    }

    async fn fence(guard: &Guard, transaction: &mut Transaction<'_, Self>) -> Result<()> {
        postgres::fence(guard, transaction).await
    }
}

impl Client for MySql {
    async fn connect_with(pool: Pool<Self>, options: &str) -> Result<Session> {
        mysql::connect_with(pool, options).await
    }

    async fn fence(guard: &Guard, transaction: &mut Transaction<'_, Self>) -> Result<()> {
        mysql::fence(guard, transaction).await
    }
}

/// A pool of at most so many connections.
pub(super) async fn pool<DB: Client>(site: &Site, connections: u32) -> Pool<DB> {
    let options = PoolOptions::new().max_connections(connections);
    options.connect(&site.url()).await.unwrap()
}
