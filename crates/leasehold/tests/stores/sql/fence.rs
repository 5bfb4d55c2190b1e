//! A lock as a condition of a transaction.

use std::time::Duration;

use leasehold::{ErrorKind, Lost, Name};
use sqlx_core::pool::Pool;
use tokio::time::timeout;

use super::client::{self, Client};
use super::{Kind, Site};
use crate::steps::{LONG, heard, lock, queue_of, session, wait_for_lock};

cases! {
    ; clients:
    a_transaction_under_a_lock_commits,
    a_holder_that_was_passed_over_cannot_commit,
    nobody_is_granted_the_lock_before_the_commit,
    a_release_waits_for_the_transaction,
    the_next_task_of_the_same_session_waits_for_the_transaction,
    a_lock_of_another_store_fences_nothing,
    a_pool_of_the_user_serves_as_well,
    a_fence_of_one_reader_keeps_no_other_from_leaving,
}

/// A database with an account, and a pool of an application that uses it.
async fn scene<DB: Client>(kind: Kind) -> (Site, Pool<DB>) {
    let site = kind.shared();
    site.sql(
        "create table account (id int primary key, money int); \
         insert into account values (1, 100)",
    );
    let pool = client::pool(&site, 8).await;
    (site, pool)
}

/// Lets every session's lease end in the store as if its process stood still, while
/// its own clock says nothing.
fn expire(site: &Site) {
    let before = site.kind.ago(1);
    site.sql(&format!("update leasehold.session set expires = {before}"));
}

async fn a_transaction_under_a_lock_commits<DB: Client>(kind: Kind) {
    let (site, pool) = scene::<DB>(kind).await;
    let one = site.session("ttl=20s").await;
    let guard = lock(&one, "account/1").await;
    let mut tx = pool.begin().await.unwrap();
    DB::fence(&guard, &mut tx).await.unwrap();
    let pay = "update account set money = 50";
    DB::execute(&mut tx, pay).await.unwrap();
    tx.commit().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(site.sql("select money from account"), "50");
}

async fn a_holder_that_was_passed_over_cannot_commit<DB: Client>(kind: Kind) {
    let (site, pool) = scene::<DB>(kind).await;
    let one = site.session("ttl=60s").await;
    let guard = lock(&one, "account/1").await;
    // Begun before, also in strict levels: they must not see the past.
    let mut transactions = Vec::new();
    for level in DB::LEVELS {
        let mut tx = pool.begin_with(*level).await.unwrap();
        DB::execute(&mut tx, "select * from account").await.unwrap();
        transactions.push(tx);
    }
    expire(&site);
    let other = site.session("ttl=60s").await;
    let theirs = lock(&other, "account/1").await;
    assert!(theirs.token() > guard.token());
    // The first one's clock has not told it yet.
    guard.check().unwrap();
    transactions.push(pool.begin().await.unwrap());
    for tx in &mut transactions {
        let error = DB::fence(&guard, tx).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost(Lost::Gone), "{error}");
    }
    // Nor does any hold up a waiter, as long as it is not rolled back.
    let third = site.session("ttl=60s").await;
    let waiting = wait_for_lock(&third, "account/1");
    queue_of(&site.inspector().await, "account/1", 2).await;
    theirs.release().await.unwrap();
    heard(waiting).await.release().await.unwrap();
}

async fn nobody_is_granted_the_lock_before_the_commit<DB: Client>(kind: Kind) {
    let (site, pool) = scene::<DB>(kind).await;
    let one = site.session("ttl=60s").await;
    let guard = lock(&one, "account/1").await;
    let mut tx = pool.begin().await.unwrap();
    DB::fence(&guard, &mut tx).await.unwrap();
    let pay = "update account set money = 50";
    DB::execute(&mut tx, pay).await.unwrap();
    expire(&site);
    let other = site.session("ttl=60s").await;
    // It is over, and yet the lock stays taken.
    assert!(other.mutex("account/1").try_lock().await.unwrap().is_none());
    let waiting = wait_for_lock(&other, "account/1");
    let early = other.mutex("account/1");
    let early = early.lock_within(Duration::from_millis(1500)).await;
    assert_eq!(early.unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(!waiting.is_finished());
    tx.commit().await.unwrap();
    let theirs = heard(waiting).await;
    assert!(theirs.token() > guard.token());
    assert_eq!(site.sql("select money from account"), "50");
}

async fn a_release_waits_for_the_transaction<DB: Client>(kind: Kind) {
    let (site, pool) = scene::<DB>(kind).await;
    let [one, other] = site.sessions("ttl=20s").await;
    let guard = lock(&one, "account/1").await;
    let mut tx = pool.begin().await.unwrap();
    DB::fence(&guard, &mut tx).await.unwrap();
    let releasing = tokio::spawn(guard.release());
    let waiting = wait_for_lock(&other, "account/1");
    let busy = site.session("ttl=20s").await;
    assert!(busy.mutex("account/1").try_lock().await.unwrap().is_none());
    assert!(!releasing.is_finished() && !waiting.is_finished());
    tx.rollback().await.unwrap();
    heard(releasing).await.unwrap();
    heard(waiting).await.release().await.unwrap();
}

async fn the_next_task_of_the_same_session_waits_for_the_transaction<DB: Client>(kind: Kind) {
    let (site, pool) = scene::<DB>(kind).await;
    let one = site.session("ttl=20s").await;
    let guard = lock(&one, "account/1").await;
    let token = guard.token();
    let mut tx = pool.begin().await.unwrap();
    DB::fence(&guard, &mut tx).await.unwrap();
    let mut waiting = wait_for_lock(&one, "account/1");
    let early = timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err());
    // Released too early, as a task that is dropped does.
    drop(guard);
    let early = timeout(Duration::from_secs(1), &mut waiting).await;
    assert!(early.is_err(), "two transactions are fenced by one lock");
    tx.commit().await.unwrap();
    let next = heard(waiting).await;
    assert!(next.token().get() >= token.get() + 32);
    let mut tx = pool.begin().await.unwrap();
    DB::fence(&next, &mut tx).await.unwrap();
}

async fn a_lock_of_another_store_fences_nothing<DB: Client>(kind: Kind) {
    let (_site, pool) = scene::<DB>(kind).await;
    let memory = leasehold::connect("memory:fence").await.unwrap();
    let guard = lock(&memory, &format!("account/{kind}")).await;
    let mut tx = pool.begin().await.unwrap();
    let error = DB::fence(&guard, &mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

async fn a_pool_of_the_user_serves_as_well<DB: Client>(kind: Kind) {
    let (site, pool) = scene::<DB>(kind).await;
    let one = DB::connect_with(pool.clone(), "ttl=20s&schema=mine").await;
    let one = one.unwrap();
    let other = session(&site.url(), "ttl=20s&schema=mine").await;
    let guard = lock(&one, "account/1").await;
    let waiting = wait_for_lock(&other, "account/1");
    let mut tx = pool.begin().await.unwrap();
    DB::fence(&guard, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    // Every connection of the pool may be broken.
    site.end_connections();
    guard.release().await.unwrap();
    heard(waiting).await.release().await.unwrap();
    let error = DB::connect_with(pool, "shema=x").await.unwrap_err();
    assert!(error.to_string().contains("did you mean schema?"));
}

async fn a_fence_of_one_reader_keeps_no_other_from_leaving<DB: Client>(kind: Kind) {
    let (site, pool) = scene::<DB>(kind).await;
    let [one, other] = site.sessions("ttl=1h").await;
    let third = site.session("ttl=1h").await;
    let first = one.rwlock("account/1").read().await.unwrap();
    let second = other.rwlock("account/1").read().await.unwrap();
    let (mut stays, mut ends) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    DB::fence(&first, &mut stays).await.unwrap();
    DB::fence(&second, &mut ends).await.unwrap();
    let writer = third.rwlock("account/1");
    let writer = tokio::spawn(async move { writer.write_within(LONG).await });
    let inspector = site.inspector().await;
    queue_of(&inspector, "account/1", 3).await;
    ends.commit().await.unwrap();
    // The other transaction is open all the time.
    let released = timeout(LONG, second.release()).await;
    released.expect("no other is in the way").unwrap();
    queue_of(&inspector, "account/1", 2).await;
    let claims = inspector.queue("account/1").await.unwrap().claims;
    let waits = claims.iter().find(|claim| !claim.is_holder).unwrap();
    let name = Name::new("account/1").unwrap();
    let broken = inspector.evict_claim(&name, waits.id, "ann", "").await;
    assert!(broken.unwrap());
    writer.abort();
    stays.commit().await.unwrap();
    first.release().await.unwrap();
}
