//! The weights held on a name never exceed its capacity.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::bench::{Bench, soon, try_lock};
use super::{Case, nothing, peers, semaphore};

const TTL: Duration = Duration::from_secs(10);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[1], nothing, a_lock_is_held_by_one_at_a_time),
        Case::new(&[1], nothing, two_names_are_two_locks),
        Case::new(
            &[1],
            nothing,
            many_tasks_of_many_sessions_never_hold_at_once,
        ),
        Case::new(&[1], semaphore, the_store_never_shows_more_holders_than_fit),
        Case::new(&[1], peers, processes_exclude_each_other),
    ]
}

async fn a_lock_is_held_by_one_at_a_time(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = a.mutex(&name).lock().await.unwrap();
    assert!(try_lock(&a, &name).await.is_none());
    assert!(try_lock(&b, &name).await.is_none());
    guard.release().await.unwrap();
    assert!(try_lock(&b, &name).await.is_some());
}

async fn two_names_are_two_locks(bench: Bench) {
    let (a, b) = (bench.session(TTL).await, bench.session(TTL).await);
    let _one = a.mutex(bench.name()).lock().await.unwrap();
    let other = b.mutex(bench.name());
    let _other = soon("another name is free", other.lock()).await.unwrap();
}

async fn many_tasks_of_many_sessions_never_hold_at_once(bench: Bench) {
    let name = bench.name();
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let session = bench.session(TTL).await;
        for _ in 0..5 {
            let (mutex, inside) = (session.mutex(&name), inside.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..5 {
                    let guard = mutex.lock().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        soon("everyone gets the lock", task).await.unwrap();
    }
}

async fn the_store_never_shows_more_holders_than_fit(bench: Bench) {
    let name = bench.name();
    let mut tasks = Vec::new();
    let is_over = Arc::new(AtomicBool::new(false));
    for weight in 1..=3 {
        let session = bench.session(TTL).await;
        let (name, is_over) = (name.clone(), is_over.clone());
        tasks.push(tokio::spawn(async move {
            let permits = session.semaphore(&name, 4);
            while !is_over.load(Ordering::Relaxed) {
                let guard = permits.acquire_many(weight).await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
                guard.release().await.unwrap();
            }
        }));
    }
    for _ in 0..100 {
        let queue = bench.queue(&name).await;
        let held: u32 = queue.holders().map(|holder| holder.weight).sum();
        assert!(held <= 4, "{queue:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        soon("everyone comes to an end", task).await.unwrap();
    }
}

async fn processes_exclude_each_other(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(TTL).await,
        bench.name(),
    );
    let guard = session.mutex(&name).lock().await.unwrap();
    assert_eq!(peer.ask(&format!("try {name}")).await, "busy");
    peer.tell(&format!("lock {name}"));
    bench.queue_of(&name, 2).await;
    guard.release().await.unwrap();
    peer.grant().await;
    assert!(try_lock(&session, &name).await.is_none());
    assert_eq!(peer.ask("release").await, "ok");
    drop(
        soon("the peer has released", session.mutex(&name).lock())
            .await
            .unwrap(),
    );
}
