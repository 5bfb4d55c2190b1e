//! Connections that end, servers that restart, clients that stand still.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use leasehold::{Guard, Lost};
use tokio::task::JoinHandle;

use super::{Kind, Site};
use crate::steps::{heard, lock, lost, queue_of, wait_for_lock};

cases! {
    a_hold_and_a_wait_survive_the_end_of_every_connection,
    connections_that_end_all_the_time_cost_no_lock_and_grant_none_twice,
    a_hold_and_a_wait_survive_a_crash_of_the_server,
    a_server_that_is_away_for_too_long_loses_the_lock_and_gives_it_again,
    a_server_that_stands_still_loses_the_lock_in_time,
    what_is_deleted_by_hand_is_lost_or_queues_again,
}

/// One that holds a lock, and one that waits for it.
async fn a_hold_and_a_wait(site: &Site) -> (Guard, JoinHandle<Guard>) {
    let [one, other] = site.sessions("ttl=20s").await;
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&site.inspector().await, "ledger", 2).await;
    (guard, waiting)
}

/// Both are as they were.
async fn both_survived(guard: Guard, waiting: JoinHandle<Guard>) {
    guard.check().unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(heard(waiting).await.token() > token);
}

async fn a_hold_and_a_wait_survive_the_end_of_every_connection(kind: Kind) {
    let site = kind.shared();
    let (guard, waiting) = a_hold_and_a_wait(&site).await;
    let inspector = site.inspector().await;
    for _ in 0..3 {
        site.end_connections();
        let queue = inspector.queue("ledger").await.unwrap();
        assert_eq!(queue.claims.len(), 2);
        guard.check().unwrap();
    }
    both_survived(guard, waiting).await;
}

async fn connections_that_end_all_the_time_cost_no_lock_and_grant_none_twice(kind: Kind) {
    let site = kind.shared();
    let held = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    // Other processes stand for other connections here: each session has its own.
    for _ in 0..3 {
        let (session, held) = (site.session("ttl=20s").await, held.clone());
        tasks.push(tokio::spawn(async move {
            let mut last = None;
            for _ in 0..15 {
                let guard = lock(&session, "hot").await;
                assert_eq!(held.fetch_add(1, SeqCst), 0, "two hold it");
                assert!(Some(guard.token()) > last);
                last = Some(guard.token());
                tokio::task::yield_now().await;
                assert_eq!(held.fetch_sub(1, SeqCst), 1);
                guard.release().await.unwrap();
            }
        }));
    }
    let ending = async {
        loop {
            site.end_connections();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    let working = async {
        for task in tasks {
            heard(task).await;
        }
    };
    tokio::select! {
        () = working => {}
        () = ending => {}
    }
    queue_of(&site.inspector().await, "hot", 0).await;
}

async fn a_hold_and_a_wait_survive_a_crash_of_the_server(kind: Kind) {
    let mut site = kind.alone(&[]);
    let (guard, waiting) = a_hold_and_a_wait(&site).await;
    site.restart();
    queue_of(&site.inspector().await, "ledger", 2).await;
    both_survived(guard, waiting).await;
}

async fn a_server_that_is_away_for_too_long_loses_the_lock_and_gives_it_again(kind: Kind) {
    let mut site = kind.alone(&[]);
    let one = site.session("ttl=1s").await;
    let guard = lock(&one, "ledger").await;
    site.kill();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    site.restart();
    assert!(lock(&one, "ledger").await.token() > guard.token());
}

async fn a_server_that_stands_still_loses_the_lock_in_time(kind: Kind) {
    let mut site = kind.alone(&[]);
    let one = site.session("ttl=1s").await;
    let guard = lock(&one, "ledger").await;
    site.stop();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    site.go_on();
    lock(&one, "ledger").await.release().await.unwrap();
}

async fn what_is_deleted_by_hand_is_lost_or_queues_again(kind: Kind) {
    let site = kind.shared();
    let (one, other) = (site.session("ttl=2s").await, site.session("ttl=20s").await);
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    let inspector = site.inspector().await;
    queue_of(&inspector, "ledger", 2).await;
    let delete = |which: &str| {
        site.sql(&format!(
            "delete from leasehold.claim where place = \
             (select place from (select {which}(place) as place from leasehold.claim) one)"
        ))
    };
    delete("max");
    queue_of(&inspector, "ledger", 2).await;
    delete("min");
    assert_eq!(lost(&guard).await, Lost::Gone);
    heard(waiting).await.release().await.unwrap();
    // A session without its row has a new one soon.
    let guard = lock(&one, "ledger").await;
    site.sql("delete from leasehold.session");
    assert_eq!(lost(&guard).await, Lost::Gone);
    lock(&one, "ledger").await.release().await.unwrap();
}
