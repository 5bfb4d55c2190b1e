//! Guards, sessions and runtimes that go away.

use std::time::Duration;

use super::bench::{Bench, soon, try_lock};
use super::{Case, nothing};
use crate::error::ErrorKind;
use crate::guard::Lost;

/// Longer than a case may take: nothing here waits for a lease to run out
/// unless it says so.
const TTL: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(1);
/// A busy machine renews it in time.
const KEPT: Duration = Duration::from_secs(20);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[13], nothing, a_dropped_guard_frees_the_lock),
        Case::new(&[13], nothing, a_release_that_is_dropped_frees_the_lock),
        Case::new(
            &[13],
            nothing,
            closing_gives_everything_back_and_returns_when_that_is_known,
        ),
        Case::new(&[13], nothing, closing_ends_the_waits_of_the_session),
        Case::new(&[25], nothing, a_guard_outlives_its_session),
        Case::new(&[25], nothing, a_dropped_session_leaves_nothing),
        Case::new(&[25], nothing, a_guard_may_be_moved_to_another_task),
        Case::new(
            &[25],
            nothing,
            a_runtime_that_ends_while_holding_harms_nobody,
        ),
    ]
}

async fn a_dropped_guard_frees_the_lock(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = a.mutex(&name).lock().await.unwrap();
    let mutex = b.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    bench.queue_of(&name, 2).await;
    drop(guard);
    soon("the lock is free", waiting).await.unwrap().unwrap();
    bench.queue_of(&name, 0).await;
}

async fn a_release_that_is_dropped_frees_the_lock(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    for _ in 0..20 {
        let mutex = session.mutex(&name);
        let guard = soon("the lock is free", mutex.lock()).await.unwrap();
        let release = tokio::time::timeout(Duration::ZERO, guard.release()).await;
        drop(release);
    }
    bench.queue_of(&name, 0).await;
}

async fn closing_gives_everything_back_and_returns_when_that_is_known(bench: Bench) {
    let (a, b) = (bench.session(TTL).await, bench.session(TTL).await);
    let names: Vec<_> = (0..10).map(|_| bench.name()).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(a.mutex(name).lock().await.unwrap());
    }
    soon("it closes", a.close()).await;
    for name in &names {
        assert!(try_lock(&b, name).await.is_some(), "{name}");
    }
    for guard in guards {
        assert_eq!(guard.lost().await, Lost::Closed);
        let error = guard.release().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost(Lost::Closed));
    }
}

async fn closing_ends_the_waits_of_the_session(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let _guard = b.mutex(&name).lock().await.unwrap();
    let mutex = a.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    let later = a.mutex(&name);
    soon("it closes", a.close()).await;
    let error = soon("the wait ends", waiting).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    let error = later.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert_eq!(bench.queue(&name).await.claims.len(), 1);
}

async fn a_guard_outlives_its_session(bench: Bench) {
    let (session, other, name) = (
        bench.session(KEPT).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = session.mutex(&name).lock().await.unwrap();
    drop(session);
    // It is renewed like any other.
    let mut least = guard.valid_for();
    while guard.valid_for() <= least {
        guard.check().unwrap();
        least = guard.valid_for();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(try_lock(&other, &name).await.is_none());
    drop(guard);
    drop(
        soon("the lock is free", other.mutex(&name).lock())
            .await
            .unwrap(),
    );
}

async fn a_dropped_session_leaves_nothing(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = b.mutex(&name).lock().await.unwrap();
    let mutex = a.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    drop(a);
    waiting.abort();
    bench.queue_of(&name, 1).await;
    guard.release().await.unwrap();
}

async fn a_guard_may_be_moved_to_another_task(bench: Bench) {
    let (session, other, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = session.mutex(&name).lock().await.unwrap();
    let moved = tokio::spawn(async move {
        guard.check().unwrap();
        guard.release().await.unwrap();
    });
    soon("it is released there", moved).await.unwrap();
    assert!(try_lock(&other, &name).await.is_some());
}

async fn a_runtime_that_ends_while_holding_harms_nobody(bench: Bench) {
    let name = bench.name();
    let (theirs, held) = (bench.clone(), name.clone());
    let there = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (guard, waiting) = runtime.block_on(async {
            let session = theirs.session(SHORT).await;
            let guard = session.mutex(&held).lock().await.unwrap();
            let mutex = session.mutex(&held);
            (
                guard,
                tokio::spawn(async move { mutex.lock().await.map(drop) }),
            )
        });
        drop(runtime);
        let _ = guard.check();
        drop(guard);
        drop(waiting);
    });
    let joining = tokio::task::spawn_blocking(|| there.join());
    soon("the runtime ends", joining)
        .await
        .unwrap()
        .expect("nothing panics");
    let session = bench.session(TTL).await;
    drop(
        soon("the lease runs out", session.mutex(&name).lock())
            .await
            .unwrap(),
    );
}
