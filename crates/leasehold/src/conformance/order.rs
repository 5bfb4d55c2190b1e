//! Waiters are served in order of arrival, and a try never jumps the queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::bench::{Bench, soon, try_lock};
use super::{Case, Needs, fair, nothing, peers};

const TTL: Duration = Duration::from_secs(30);

pub(super) fn cases() -> Vec<Case> {
    let fair_peers: Needs = |promises| peers(promises).and(fair(promises));
    vec![
        Case::new(&[16], fair, sessions_are_served_in_order_of_arrival),
        Case::new(
            &[16],
            nothing,
            tasks_of_a_session_are_served_in_order_of_arrival,
        ),
        Case::new(&[16], fair_peers, processes_are_served_in_order_of_arrival),
        Case::new(&[16], fair, a_busy_session_does_not_starve_another),
        Case::new(&[16], fair, a_try_does_not_jump_the_queue),
        Case::new(&[16], nothing, a_try_that_fails_writes_nothing),
    ]
}

async fn sessions_are_served_in_order_of_arrival(bench: Bench) {
    let name = bench.name();
    let holder = bench.session(TTL).await;
    let guard = holder.mutex(&name).lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waits = Vec::new();
    for number in 0..6 {
        let (mutex, served) = (bench.session(TTL).await.mutex(&name), served.clone());
        waits.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            served.lock().unwrap().push(number);
            guard.release().await.unwrap();
        }));
        bench.queue_of(&name, number + 2).await;
    }
    guard.release().await.unwrap();
    for wait in waits {
        soon("it is its turn", wait).await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

async fn tasks_of_a_session_are_served_in_order_of_arrival(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    let served = Mutex::new(Vec::new());
    let waits = (0..20).map(|number| {
        let (mutex, served) = (session.mutex(&name), &served);
        async move {
            let guard = mutex.lock().await.unwrap();
            served.lock().unwrap().push(number);
            guard.release().await.unwrap();
        }
    });
    // One task polls them, in this order.
    let everyone = futures_util::future::join_all(waits);
    let releasing = async {
        tokio::task::yield_now().await;
        guard.release().await.unwrap();
    };
    soon("everyone is served", async {
        tokio::join!(everyone, releasing)
    })
    .await;
    assert!(served.lock().unwrap().is_sorted());
}

async fn processes_are_served_in_order_of_arrival(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    let mut waiting = Vec::new();
    for number in 0..4 {
        let mut peer = bench.peer(TTL).await;
        peer.tell(&format!("lock {name}"));
        bench.queue_of(&name, number + 2).await;
        waiting.push(peer);
    }
    guard.release().await.unwrap();
    for peer in &mut waiting {
        peer.grant().await;
        assert_eq!(peer.ask("check").await, "held");
        assert_eq!(peer.ask("release").await, "ok");
    }
}

/// The tasks of one session hand the lock to each other; the other session gets
/// it all the same.
async fn a_busy_session_does_not_starve_another(bench: Bench) {
    let (busy, other, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let mutex = busy.mutex(&name);
            tokio::spawn(async move {
                loop {
                    let guard = mutex.lock().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    drop(guard);
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let mutex = other.mutex(&name);
        let guard = soon("the other session gets in", mutex.lock())
            .await
            .unwrap();
        guard.release().await.unwrap();
    }
    for task in &tasks {
        assert!(!task.is_finished(), "it goes on all the time");
        task.abort();
    }
}

/// The holder leaves while somebody waits: between the two a try would find the
/// lock free.
async fn a_try_does_not_jump_the_queue(bench: Bench) {
    let (a, b, c) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.session(TTL).await,
    );
    let name = bench.name();
    let guard = a.mutex(&name).lock().await.unwrap();
    let mutex = b.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    guard.release().await.unwrap();
    for session in [&a, &c] {
        assert!(try_lock(session, &name).await.is_none());
    }
    let held = soon("the waiter gets it", waiting).await.unwrap().unwrap();
    held.release().await.unwrap();
}

async fn a_try_that_fails_writes_nothing(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let _guard = a.mutex(&name).lock().await.unwrap();
    let inspector = bench.inspector();
    let before = bench.queue(&name).await;
    for _ in 0..10 {
        assert!(try_lock(&b, &name).await.is_none());
        let after = bench.queue(&name).await;
        assert_eq!(after.claims.len(), 1);
        assert_eq!(after.claims[0].id, before.claims[0].id);
    }
    assert_eq!(inspector.names("").await.unwrap().len(), 1);
}
