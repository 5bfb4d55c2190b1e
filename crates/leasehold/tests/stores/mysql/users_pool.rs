//! A pool of the user's own, whose connections others use too.

use leasehold::mysql::connect_with;
use sqlx_core::executor::Executor;
use sqlx_core::pool::PoolOptions;
use sqlx_core::row::Row;

use super::{lock, mysql_with};

#[testbed::test]
async fn a_pool_that_does_not_commit_by_itself_serves_as_well() {
    let server = mysql_with(&["autocommit=0"]);
    // With one connection, whatever stays open on it is in the way of the next.
    let pool = PoolOptions::new().max_connections(1);
    let pool = pool.connect(&server.url()).await.unwrap();
    let one = connect_with(pool.clone(), "ttl=20s").await.unwrap();
    let dead = server.session("ttl=1h").await;
    let left = lock(&dead, "ledger").await;
    let end = "update leasehold_session set expires = utc_timestamp(6) - interval 1 second \
               where ttl = 3600000000";
    server.sql(end);
    let guard = lock(&one, "ledger").await;
    assert!(guard.token() > left.token());
    guard.release().await.unwrap();
    let all = one.lock_all(["ledger", "other"]).try_lock().await;
    let all = all.unwrap().expect("both are free");
    let claims = "select count(*) from leasehold_claim where ticket is not null";
    assert_eq!(server.sql(claims), "2");
    drop(all);
    // It is given back as it was, with nothing open on it.
    let mut connection = pool.acquire().await.unwrap();
    let open = "select concat(@@autocommit + 0, @@in_transaction, @@wait_timeout)";
    let row = (&mut *connection).fetch_one(open).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "0028800");
}
