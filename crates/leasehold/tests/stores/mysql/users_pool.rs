//! A pool of the user's own, whose connections others use too.

use leasehold::Session;
use leasehold::mysql::{MySqlPool, connect_with};
use sqlx_core::executor::Executor;
use sqlx_core::pool::PoolOptions;
use sqlx_core::row::Row;

use super::{LONG, lock, mysql};
use testbed::mysql::Mysql;
use testbed::wait_for;

const CLAIMS: &str = "select count(*) from leasehold_claim where ticket is not null";

async fn pool(server: &Mysql, connections: u32) -> MySqlPool {
    let options = PoolOptions::new().max_connections(connections);
    options.connect(&server.url()).await.unwrap()
}

async fn session(pool: &MySqlPool, options: &str) -> Session {
    connect_with(pool.clone(), options).await.unwrap()
}

#[testbed::test]
async fn a_pool_of_which_all_is_in_use_costs_no_lock() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server, 2).await;
    let one = session(&pool, "ttl=2s").await;
    let guard = lock(&one, "ledger").await;
    let _all = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    let end = server.sql("select max(expires) from leasehold_session");
    wait_for("another term", || {
        let later = format!("select utc_timestamp(6) > '{end}'");
        (server.sql(&later) == "1").then_some(())
    });
    guard.check().unwrap();
    let released = tokio::time::timeout(LONG / 2, guard.release()).await;
    released.expect("it needs none of them").unwrap();
    assert_eq!(server.sql(CLAIMS), "0");
}

#[testbed::test]
async fn a_transaction_that_was_left_open_takes_no_lock_into_it() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server, 1).await;
    let one = session(&pool, "ttl=20s").await;
    let left_open = [
        "begin",
        "begin; select * from leasehold_claim",
        "set autocommit = 0; select * from leasehold_claim",
        "start transaction read only; select * from leasehold_claim",
    ];
    for left in left_open {
        let mut connection = pool.acquire().await.unwrap();
        (&mut *connection).execute(left).await.unwrap();
        drop(connection);
        let guard = lock(&one, "ledger").await;
        // Others see it: it is committed.
        assert_eq!(server.sql(CLAIMS), "1", "{left}");
        guard.release().await.unwrap();
    }
}

#[testbed::test]
async fn a_pool_that_does_not_commit_by_itself_serves_as_well() {
    let (_folder, server) = mysql(&["autocommit=0"]);
    // With one connection, whatever stays open on it is in the way of the next.
    let pool = pool(&server, 1).await;
    let one = session(&pool, "ttl=20s").await;
    let dead = super::session(&server.url(), "ttl=1h").await;
    let left = lock(&dead, "ledger").await;
    let end = "update leasehold_session set expires = utc_timestamp(6) - interval 1 second \
               where ttl = 3600000000";
    server.sql(end);
    let guard = lock(&one, "ledger").await;
    assert!(guard.token() > left.token());
    guard.release().await.unwrap();
    let all = one.lock_all(["ledger", "other"]).try_lock().await;
    let all = all.unwrap().expect("both are free");
    assert_eq!(server.sql(CLAIMS), "2");
    drop(all);
    // It is given back as it was, with nothing open on it.
    let mut connection = pool.acquire().await.unwrap();
    let open = "select concat(@@autocommit + 0, @@in_transaction, @@wait_timeout)";
    let row = (&mut *connection).fetch_one(open).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "0028800");
}
