//! A lock as a condition of a transaction.

use std::time::Duration;

use leasehold::postgres::{PgPool, fence};
use leasehold::{ErrorKind, Lost, Session};
use sqlx_core::executor::Executor;
use sqlx_core::row::Row;

use super::{heard, lock, postgres, session, wait_for_lock};
use testbed::postgres::Postgres;

async fn pool(server: &Postgres) -> PgPool {
    let pool = PgPool::connect(&server.url()).await.unwrap();
    pool.execute("create table account (id int primary key, money int)")
        .await
        .unwrap();
    pool.execute("insert into account values (1, 100)")
        .await
        .unwrap();
    pool
}

async fn money(pool: &PgPool) -> i32 {
    let row = pool.fetch_one("select money from account").await.unwrap();
    row.get(0)
}

/// Lets a session's lease end in the store as if its process stood still, while
/// its own clock says nothing.
fn expire(server: &Postgres) {
    server.sql("update leasehold.session set expires = clock_timestamp() - interval '1 s'");
}

#[testbed::test]
async fn a_transaction_under_a_lock_commits() {
    let (_folder, server) = postgres(&[]);
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
    let (_folder, server) = postgres(&[]);
    let pool = pool(&server).await;
    let one = session(&server.url(), "ttl=60s").await;
    let guard = lock(&one, "account/1").await;
    // Begun before, in the strictest level: it must not see the past either.
    let mut strict = pool.begin().await.unwrap();
    (&mut *strict)
        .execute("set transaction isolation level serializable")
        .await
        .unwrap();
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
}

#[testbed::test]
async fn nobody_is_granted_the_lock_before_the_commit() {
    let (_folder, server) = postgres(&[]);
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
    let waiting = wait_for_lock(&other, "account/1");
    let early = other.mutex("account/1");
    let early = early.lock_within(Duration::from_millis(1500)).await;
    assert_eq!(early.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(!waiting.is_finished());
    tx.commit().await.unwrap();
    let theirs = heard(waiting).await;
    assert!(theirs.token() > guard.token());
    assert_eq!(money(&pool).await, 50);
}

#[testbed::test]
async fn a_release_waits_for_the_transaction() {
    let (_folder, server) = postgres(&[]);
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
async fn the_next_task_of_the_same_session_waits_for_the_transaction() {
    let (_folder, server) = postgres(&[]);
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
async fn a_lock_of_another_store_fences_nothing() {
    let (_folder, server) = postgres(&[]);
    let pool = pool(&server).await;
    let memory = leasehold::connect("memory:fence").await.unwrap();
    let guard = lock(&memory, "account/1").await;
    let mut tx = pool.begin().await.unwrap();
    let error = fence(&guard, &mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[testbed::test]
async fn a_pool_of_the_user_serves_as_well() {
    let (_folder, server) = postgres(&[]);
    let pool = pool(&server).await;
    let one = leasehold::postgres::connect_with(pool.clone(), "ttl=5s&schema=mine");
    let one = one.await.unwrap();
    let other = session(&server.url(), "ttl=5s&schema=mine").await;
    let guard = lock(&one, "account/1").await;
    let waiting = wait_for_lock(&other, "account/1");
    let mut tx = pool.begin().await.unwrap();
    fence(&guard, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    // Every connection of the pool may be broken.
    let own = "select pg_terminate_backend(pid) from pg_stat_activity \
               where pid <> pg_backend_pid() and backend_type = 'client backend'";
    server.sql(own);
    guard.release().await.unwrap();
    heard(waiting).await.release().await.unwrap();
    let error = leasehold::postgres::connect_with(pool, "shema=x").await;
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("did you mean schema?")
    );
}
