//! A lock as a condition of a transaction.

use std::time::Duration;

use leasehold::mysql::{MySqlPool, fence};
use leasehold::{ErrorKind, Lost, Session};
use sqlx_core::executor::Executor;
use sqlx_core::row::Row;

use super::cost::said;
use super::{heard, inspector, lock, mysql, queue_of, session, wait_for_lock};
use testbed::mysql::Mysql;

async fn pool(server: &Mysql) -> MySqlPool {
    let pool = MySqlPool::connect(&server.url()).await.unwrap();
    pool.execute("create table account (id int primary key, money int)")
        .await
        .unwrap();
    pool.execute("insert into account values (1, 100)")
        .await
        .unwrap();
    pool
}

async fn money(pool: &MySqlPool) -> i32 {
    let row = pool.fetch_one("select money from account").await.unwrap();
    row.get(0)
}

/// Lets a session's lease end in the store as if its process stood still, while
/// its own clock says nothing.
fn expire(server: &Mysql) {
    server.sql("update leasehold_session set expires = utc_timestamp(6) - interval 1 second");
}

#[testbed::test]
async fn a_transaction_under_a_lock_commits() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server).await;
    let one = session(&server.url(), "ttl=10s").await;
    let guard = lock(&one, "account/1").await;
    let mut tx = pool.begin().await.unwrap();
    fence(&guard, &mut tx).await.unwrap();
    (&mut *tx)
        .execute("update account set money = 50")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(money(&pool).await, 50);
}

#[testbed::test]
async fn a_holder_that_was_passed_over_cannot_commit() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server).await;
    let one = session(&server.url(), "ttl=60s").await;
    let guard = lock(&one, "account/1").await;
    // Begun before, in the usual level: it must not see the past.
    let mut strict = pool.begin().await.unwrap();
    (&mut *strict)
        .execute("select * from account")
        .await
        .unwrap();
    expire(&server);
    let other = session(&server.url(), "ttl=60s").await;
    let theirs = lock(&other, "account/1").await;
    assert!(theirs.token() > guard.token());
    // The first one's clock has not told it yet.
    guard.check().unwrap();
    let mut tx = pool.begin().await.unwrap();
    for tx in [&mut tx, &mut strict] {
        let error = fence(&guard, tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost(Lost::Gone), "{error}");
    }
    // Nor is it in anybody's way, as long as it is not rolled back.
    let third = session(&server.url(), "ttl=60s").await;
    let waiting = wait_for_lock(&third, "account/1");
    queue_of(&inspector(&server.url()).await, "account/1", 2).await;
    theirs.release().await.unwrap();
    heard(waiting).await.release().await.unwrap();
}

#[testbed::test]
async fn nobody_is_granted_the_lock_before_the_commit() {
    let (_folder, server) = mysql(&["general-log=1", "general-log-file=said"]);
    let pool = pool(&server).await;
    let one = session(&server.url(), "ttl=60s").await;
    let guard = lock(&one, "account/1").await;
    let mut tx = pool.begin().await.unwrap();
    fence(&guard, &mut tx).await.unwrap();
    (&mut *tx)
        .execute("update account set money = 50")
        .await
        .unwrap();
    expire(&server);
    let other = session(&server.url(), "ttl=60s").await;
    // It is over, and yet nobody gets it.
    assert!(other.mutex("account/1").try_lock().await.unwrap().is_none());
    let before = said(&server, "order by c.place");
    let waiting = wait_for_lock(&other, "account/1");
    let early = other.mutex("account/1");
    let early = early.lock_within(Duration::from_millis(1500)).await;
    assert_eq!(early.unwrap_err().kind(), ErrorKind::TimedOut);
    // Those who wait look less and less often, also at the dead.
    let looks = said(&server, "order by c.place") - before;
    assert!(looks < 450, "{looks}");
    assert!(!waiting.is_finished());
    tx.commit().await.unwrap();
    let theirs = heard(waiting).await;
    assert!(theirs.token() > guard.token());
    assert_eq!(money(&pool).await, 50);
}

#[testbed::test]
async fn a_release_waits_for_the_transaction() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server).await;
    let (one, other): (Session, Session) = (
        session(&server.url(), "ttl=20s").await,
        session(&server.url(), "ttl=20s").await,
    );
    let guard = lock(&one, "account/1").await;
    let mut tx = pool.begin().await.unwrap();
    fence(&guard, &mut tx).await.unwrap();
    let releasing = tokio::spawn(guard.release());
    let waiting = wait_for_lock(&other, "account/1");
    let busy = session(&server.url(), "ttl=20s").await;
    let busy = busy.mutex("account/1").try_lock().await.unwrap();
    assert!(busy.is_none());
    assert!(!releasing.is_finished() && !waiting.is_finished());
    tx.rollback().await.unwrap();
    heard(releasing).await.unwrap();
    heard(waiting).await.release().await.unwrap();
}

#[testbed::test]
async fn a_lock_of_another_store_fences_nothing() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server).await;
    let memory = leasehold::connect("memory:fence").await.unwrap();
    let guard = lock(&memory, "account/1").await;
    let mut tx = pool.begin().await.unwrap();
    let error = fence(&guard, &mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[testbed::test]
async fn a_pool_of_the_user_serves_as_well() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server).await;
    let one = leasehold::mysql::connect_with(pool.clone(), "ttl=5s&schema=mine");
    let one = one.await.unwrap();
    let other = session(&server.url(), "ttl=5s&schema=mine").await;
    let guard = lock(&one, "account/1").await;
    let waiting = wait_for_lock(&other, "account/1");
    let mut tx = pool.begin().await.unwrap();
    fence(&guard, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    // Every connection of the pool may be broken.
    server.end_connections();
    guard.release().await.unwrap();
    heard(waiting).await.release().await.unwrap();
    let error = leasehold::mysql::connect_with(pool, "shema=x").await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("did you mean schema?")
    );
}

#[testbed::test]
async fn the_next_task_of_the_same_session_waits_for_the_transaction() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server).await;
    let one = session(&server.url(), "ttl=20s").await;
    let guard = lock(&one, "account/1").await;
    let token = guard.token();
    let mut tx = pool.begin().await.unwrap();
    fence(&guard, &mut tx).await.unwrap();
    let mut waiting = wait_for_lock(&one, "account/1");
    let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err());
    // Released too early, as a task that is dropped does.
    drop(guard);
    let early = tokio::time::timeout(Duration::from_secs(1), &mut waiting).await;
    assert!(early.is_err(), "two transactions are fenced by one lock");
    tx.commit().await.unwrap();
    let next = heard(waiting).await;
    assert!(next.token().get() >= token.get() + 32);
    let mut tx = pool.begin().await.unwrap();
    fence(&next, &mut tx).await.unwrap();
}

#[testbed::test]
async fn a_fence_of_one_reader_keeps_no_other_from_leaving() {
    let (_folder, server) = mysql(&[]);
    let pool = pool(&server).await;
    let (one, other, third) = (
        session(&server.url(), "ttl=1h").await,
        session(&server.url(), "ttl=1h").await,
        session(&server.url(), "ttl=1h").await,
    );
    let first = one.rwlock("account/1").read().await.unwrap();
    let second = other.rwlock("account/1").read().await.unwrap();
    let (mut stays, mut ends) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    fence(&first, &mut stays).await.unwrap();
    fence(&second, &mut ends).await.unwrap();
    let writer = third.rwlock("account/1");
    let writer = tokio::spawn(async move { writer.write_within(super::LONG).await });
    let inspector = inspector(&server.url()).await;
    queue_of(&inspector, "account/1", 3).await;
    ends.commit().await.unwrap();
    // The other transaction is open all the time.
    let released = tokio::time::timeout(super::LONG, second.release()).await;
    released.expect("no other is in the way").unwrap();
    queue_of(&inspector, "account/1", 2).await;
    let waits = inspector.queue("account/1").await.unwrap();
    let waits = waits
        .claims
        .iter()
        .find(|claim| !claim.is_holder)
        .unwrap()
        .id;
    let name = leasehold::Name::new("account/1").unwrap();
    let broken = inspector.evict_claim(&name, waits, "ann", "").await;
    assert!(broken.unwrap());
    writer.abort();
    stays.commit().await.unwrap();
    first.release().await.unwrap();
}
