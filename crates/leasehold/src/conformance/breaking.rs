//! Breaking a lock: the holder hears of it, the next one gets it, it is on
//! record.

use std::time::Duration;

use super::bench::{Bench, soon, try_lock};
use super::{Case, nothing, rwlock, tokens};
use crate::error::ErrorKind;
use crate::guard::Lost;

/// Nothing here waits for a lease to run out; where the store tells nobody, the holder hears
/// of it when it renews.
const TTL: Duration = Duration::from_secs(20);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            &[2, 8],
            tokens,
            a_broken_lock_is_lost_and_the_next_is_woken_with_a_greater_token,
        ),
        Case::new(&[8], nothing, breaking_a_free_lock_breaks_nobody),
        Case::new(
            &[5, 8],
            nothing,
            a_release_after_the_break_does_not_touch_the_next_holder,
        ),
        Case::new(&[8], rwlock, breaking_evicts_every_reader),
    ]
}

async fn a_broken_lock_is_lost_and_the_next_is_woken_with_a_greater_token(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = a.mutex(&name).lock().await.unwrap();
    let mutex = b.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    let inspector = bench.inspector();
    assert_eq!(inspector.evict(&name, "ann", "stuck").await.unwrap(), 1);
    assert_eq!(
        soon("the holder hears of it", guard.lost()).await,
        Lost::Evicted
    );
    let next = soon("the next is woken", waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    let evictions = bench.queue(&name).await.evictions;
    assert_eq!(evictions.len(), 1);
    assert_eq!(evictions[0].token, guard.token());
    assert_eq!((&*evictions[0].by, &*evictions[0].reason), ("ann", "stuck"));
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Lost::Evicted));
    assert!(error.to_string().contains("ann"), "{error}");
    next.check().unwrap();
}

async fn breaking_a_free_lock_breaks_nobody(bench: Bench) {
    let inspector = bench.inspector();
    assert_eq!(
        inspector
            .evict(bench.name(), "ann", "to see")
            .await
            .unwrap(),
        0
    );
}

async fn a_release_after_the_break_does_not_touch_the_next_holder(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let broken = session.mutex(&name).lock().await.unwrap();
    bench
        .inspector()
        .evict(&name, "ann", "stuck")
        .await
        .unwrap();
    soon("the holder hears of it", broken.lost()).await;
    let next = soon("it is free", session.mutex(&name).lock())
        .await
        .unwrap();
    drop(broken);
    let other = bench.session(TTL).await;
    assert!(try_lock(&other, &name).await.is_none());
    next.check().unwrap();
    next.release().await.unwrap();
}

async fn breaking_evicts_every_reader(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (one, two) = (
        a.rwlock(&name).read().await.unwrap(),
        b.rwlock(&name).read().await.unwrap(),
    );
    let evicted = bench
        .inspector()
        .evict(&name, "ann", "stuck")
        .await
        .unwrap();
    assert_eq!(evicted, 2);
    assert_eq!(
        soon("a reader hears of it", one.lost()).await,
        Lost::Evicted
    );
    assert_eq!(
        soon("a reader hears of it", two.lost()).await,
        Lost::Evicted
    );
    drop(
        soon("a writer gets in", a.rwlock(&name).write())
            .await
            .unwrap(),
    );
}
