//! A pool of the user's own, whose connections others use too.

use leasehold::Session;
use leasehold::postgres::{PgPool, connect_with};
use sqlx_core::executor::Executor;
use sqlx_core::pool::PoolOptions;

use super::{LONG, lock, postgres};
use testbed::postgres::Postgres;
use testbed::wait_for;

async fn pool(server: &Postgres, connections: u32) -> PgPool {
    let options = PoolOptions::new().max_connections(connections);
    options.connect(&server.url()).await.unwrap()
}

async fn session(pool: &PgPool, options: &str) -> Session {
    connect_with(pool.clone(), options).await.unwrap()
}

#[testbed::test]
async fn a_pool_of_which_all_is_in_use_costs_no_lock() {
    let (_folder, server) = postgres(&[]);
    let pool = pool(&server, 2).await;
    let one = session(&pool, "ttl=2s").await;
    let guard = lock(&one, "ledger").await;
    let _all = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    let end = server.sql("select max(expires) from leasehold.session");
    wait_for("another term", || {
        let later = format!("select clock_timestamp() > '{end}'");
        (server.sql(&later) == "t").then_some(())
    });
    guard.check().unwrap();
    let released = tokio::time::timeout(LONG / 2, guard.release()).await;
    released.expect("it needs none of them").unwrap();
    assert_eq!(server.sql("select count(*) from leasehold.claim"), "0");
}

#[testbed::test]
async fn a_transaction_that_was_left_open_takes_no_lock_into_it() {
    let (_folder, server) = postgres(&[]);
    let pool = pool(&server, 1).await;
    let one = session(&pool, "ttl=20s").await;
    for left in ["begin", "begin; select 1", "begin; select 1 / 0"] {
        let mut connection = pool.acquire().await.unwrap();
        let done = (&mut *connection).execute(left).await;
        assert_eq!(done.is_err(), left.contains('/'));
        drop(connection);
        let guard = lock(&one, "ledger").await;
        // Others see it: it is committed.
        let count = server.sql("select count(*) from leasehold.claim where name = 'ledger'");
        assert_eq!(count, "1", "{left}");
        guard.release().await.unwrap();
    }
}
