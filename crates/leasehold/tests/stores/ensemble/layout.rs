//! What lies beside a lock, above it and below it.

use leasehold::ErrorKind;

use super::{Ensemble, cases};
use crate::steps::{answered, inspector, lock, queue_of, session, try_lock, wait_for_lock};

cases![
    locks_below_a_lock_are_not_in_its_way,
    what_is_no_memo_is_not_taken_for_none,
];

async fn locks_below_a_lock_are_not_in_its_way<E: Ensemble>() {
    let ensemble = E::one();
    let one = session(&ensemble.url(), "ttl=20s").await;
    let other = session(&ensemble.url(), "ttl=20s").await;
    let mut below = Vec::new();
    // More than are looked at in passing.
    for number in 0..20 {
        below.push(lock(&one, &format!("a/{number:x}")).await);
    }
    let tried = try_lock(&other, "a").await;
    tried.expect("it is free").release().await.unwrap();
    let guard = lock(&other, "a").await;
    assert!(try_lock(&one, "a").await.is_none());
    let waiting = wait_for_lock(&one, "a");
    queue_of(&inspector(&ensemble.url()).await, "a", 2).await;
    let token = guard.token();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    let reader = other.rwlock("a").read().await.unwrap();
    let another = one.rwlock("a");
    assert!(answered(|| another.try_read()).await.is_some());
    reader.release().await.unwrap();
    for guard in below {
        guard.release().await.unwrap();
    }
}

async fn what_is_no_memo_is_not_taken_for_none<E: Ensemble>() {
    let ensemble = E::one();
    let session = session(&ensemble.url(), "ttl=20s").await;
    ensemble.put_no_memo("a");
    let error = session.memo("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    // The holder may write over it.
    let guard = lock(&session, "a").await;
    guard.write_memo("ours").await.unwrap();
    let memo = session.memo("a").await.unwrap().memo.unwrap();
    assert_eq!(memo.text(), "ours");
}
