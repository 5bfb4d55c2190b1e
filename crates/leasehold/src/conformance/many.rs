//! Many locks: all or nothing, without deadlock, and with few tasks.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::bench::{Bench, soon, tried, try_lock, until};
use super::{Case, nothing};
use crate::error::ErrorKind;

const TTL: Duration = Duration::from_secs(30);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[19], nothing, lock_all_is_all_or_nothing),
        Case::new(&[19], nothing, opposite_orders_do_not_deadlock),
        Case::new(&[24], nothing, a_thousand_locks_need_no_more_tasks_than_one),
    ]
}

async fn lock_all_is_all_or_nothing(bench: Bench) {
    let (a, b) = (bench.session(TTL).await, bench.session(TTL).await);
    let names = [bench.name(), bench.name(), bench.name()];
    let held = a.mutex(&names[1]).lock().await.unwrap();
    assert!(
        tried(|| async { b.lock_all(&names).try_lock().await })
            .await
            .is_none()
    );
    let waited = b.lock_all(&names).lock_within(super::ENOUGH).await;
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
    for name in &names {
        let length = usize::from(*name == names[1]);
        bench.queue_of(name, length).await;
    }
    held.release().await.unwrap();
    let guards = soon("all are free", b.lock_all(&names).lock())
        .await
        .unwrap();
    assert_eq!(guards.len(), 3);
    for name in &names {
        assert!(try_lock(&a, name).await.is_none());
    }
    guards.release().await.unwrap();
    for name in &names {
        assert!(try_lock(&a, name).await.is_some());
    }
}

async fn opposite_orders_do_not_deadlock(bench: Bench) {
    let mut names = vec![bench.name(), bench.name(), bench.name()];
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let session = bench.session(TTL).await;
        names.reverse();
        let all = session.lock_all(&names);
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let guards = all.lock().await.unwrap();
                tokio::task::yield_now().await;
                guards.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon("everyone comes to an end", task).await.unwrap();
    }
}

async fn a_thousand_locks_need_no_more_tasks_than_one(bench: Bench) {
    let (session, other) = (bench.session(TTL).await, bench.session(TTL).await);
    let first = session.mutex(bench.name()).lock().await.unwrap();
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let names: Vec<_> = (0..1000).map(|_| bench.name()).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(session.mutex(name).lock().await.unwrap());
    }
    // A client may have a task for a request that has just been answered.
    let is_back = || async { metrics.num_alive_tasks() <= before };
    until("holding takes no tasks", is_back).await;
    let mut waits: FuturesUnordered<_> = names[..100]
        .iter()
        .map(|name| {
            let mutex = other.mutex(name);
            async move { mutex.lock().await.map(drop) }
        })
        .collect();
    let all_wait = until("all of them wait", || async {
        for name in &names[..100] {
            if bench.queue(name).await.claims.len() < bench.shown(2) {
                return false;
            }
        }
        true
    });
    let waiting = async {
        all_wait.await;
        until("waiting takes no tasks", is_back).await;
    };
    tokio::select! {
        granted = waits.next() => panic!("none can be granted: {granted:?}"),
        () = waiting => {}
    }
    drop(first);
    let releasing = async {
        for guard in guards {
            guard.release().await.unwrap();
        }
    };
    let granting = async {
        let mut count = 0;
        while let Some(granted) = waits.next().await {
            granted.unwrap();
            count += 1;
        }
        count
    };
    let ((), granted) = soon("all are released and granted", async {
        tokio::join!(releasing, granting)
    })
    .await;
    assert_eq!(granted, 100);
}
