//! An owner enters again; another owner in the same process does not.

use std::time::Duration;

use super::bench::{Bench, soon, tried, try_lock};
use super::{Case, nothing};
use crate::error::ErrorKind;
use crate::owner::Owner;

const TTL: Duration = Duration::from_secs(30);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            &[20],
            nothing,
            an_owner_enters_again_and_leaves_with_the_last_guard,
        ),
        Case::new(&[20], nothing, another_owner_of_the_process_waits),
        Case::new(
            &[20],
            nothing,
            an_owner_that_was_evicted_does_not_enter_again,
        ),
        Case::new(&[20], nothing, a_mutex_is_not_entered_again),
    ]
}

async fn an_owner_enters_again_and_leaves_with_the_last_guard(bench: Bench) {
    let (session, other, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (lock, ann) = (session.reentrant(&name), Owner::new("ann"));
    let outer = lock.lock(&ann).await.unwrap();
    let inner = soon("it enters again", lock.lock(&ann)).await.unwrap();
    let third = lock.try_lock(&ann.clone()).await.unwrap().unwrap();
    assert_eq!(outer.token(), inner.token());
    outer.release().await.unwrap();
    drop(third);
    assert!(try_lock(&other, &name).await.is_none());
    inner.release().await.unwrap();
    assert!(try_lock(&other, &name).await.is_some());
}

async fn another_owner_of_the_process_waits(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    // Two owners, although they are called alike.
    let (ann, other) = (Owner::new("ann"), Owner::new("ann"));
    let lock = session.reentrant(&name);
    let guard = lock.lock(&ann).await.unwrap();
    assert!(
        tried(|| async { lock.try_lock(&other).await })
            .await
            .is_none()
    );
    let waited = lock.lock_within(&other, Duration::from_millis(50)).await;
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
    guard.release().await.unwrap();
    drop(soon("the other gets in", lock.lock(&other)).await.unwrap());
}

async fn an_owner_that_was_evicted_does_not_enter_again(bench: Bench) {
    let (session, other, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (lock, ann) = (session.reentrant(&name), Owner::new("ann"));
    let guard = lock.lock(&ann).await.unwrap();
    bench
        .inspector()
        .evict(&name, "bob", "stuck")
        .await
        .unwrap();
    soon("it hears of it", guard.lost()).await;
    let _held = soon("it is free", other.mutex(&name).lock()).await.unwrap();
    assert!(
        tried(|| async { lock.try_lock(&ann).await })
            .await
            .is_none()
    );
}

async fn a_mutex_is_not_entered_again(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let _guard = session.mutex(&name).lock().await.unwrap();
    assert!(try_lock(&session, &name).await.is_none());
}
