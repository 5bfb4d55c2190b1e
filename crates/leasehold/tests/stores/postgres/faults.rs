//! Connections that end, servers that restart, clients that stand still.

use std::time::Duration;

use leasehold::Lost;

use super::{LONG, heard, inspector, lock, lost, postgres, queue_of, session, wait_for_lock};

#[testbed::test]
async fn a_hold_and_a_wait_survive_the_end_of_every_connection() {
    let (_folder, server) = postgres(&[]);
    let (one, other) = (
        session(&server.url(), "ttl=6s").await,
        session(&server.url(), "ttl=6s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    let inspector = inspector(&server.url()).await;
    queue_of(&inspector, "ledger", 2).await;
    for _ in 0..3 {
        server.end_connections();
        queue_of(&inspector, "ledger", 2).await;
        guard.check().unwrap();
    }
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(heard(waiting).await.token() > token);
}

#[testbed::test]
async fn connections_that_end_all_the_time_cost_no_lock_and_grant_none_twice() {
    let (_folder, server) = postgres(&[]);
    // Other processes stand for other connections here: each session has its own.
    let sessions = [
        session(&server.url(), "ttl=10s").await,
        session(&server.url(), "ttl=10s").await,
        session(&server.url(), "ttl=10s").await,
    ];
    let held = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = Vec::new();
    for session in sessions {
        let held = held.clone();
        tasks.push(tokio::spawn(async move {
            use std::sync::atomic::Ordering::SeqCst;
            let mut last = None;
            for _ in 0..15 {
                let guard = session.mutex("hot").lock_within(LONG).await.unwrap();
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
            server.end_connections();
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
    let inspector = inspector(&server.url()).await;
    queue_of(&inspector, "hot", 0).await;
}

#[testbed::test]
async fn a_hold_and_a_wait_survive_a_crash_of_the_server() {
    let (_folder, mut server) = postgres(&[]);
    let (one, other) = (
        session(&server.url(), "ttl=20s").await,
        session(&server.url(), "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&server.url()).await, "ledger", 2).await;
    server.restart();
    queue_of(&inspector(&server.url()).await, "ledger", 2).await;
    guard.check().unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(heard(waiting).await.token() > token);
}

#[testbed::test]
async fn a_server_that_is_away_for_too_long_loses_the_lock_and_gives_it_again() {
    let (_folder, mut server) = postgres(&[]);
    let one = session(&server.url(), "ttl=1s").await;
    let guard = lock(&one, "ledger").await;
    server.kill();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    server.restart();
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_server_that_stands_still_loses_the_lock_in_time() {
    use rustix::process::Signal;
    let (_folder, server) = postgres(&[]);
    let one = session(&server.url(), "ttl=1s").await;
    let guard = lock(&one, "ledger").await;
    server.signal_all(Signal::STOP);
    assert_eq!(lost(&guard).await, Lost::Deadline);
    server.signal_all(Signal::CONT);
    lock(&one, "ledger").await.release().await.unwrap();
}

#[testbed::test]
async fn what_is_deleted_by_hand_is_lost_or_queues_again() {
    let (_folder, server) = postgres(&[]);
    let (one, other) = (
        session(&server.url(), "ttl=2s").await,
        session(&server.url(), "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    let inspector = inspector(&server.url()).await;
    queue_of(&inspector, "ledger", 2).await;
    server
        .sql("delete from leasehold.claim where place = (select max(place) from leasehold.claim)");
    queue_of(&inspector, "ledger", 2).await;
    server
        .sql("delete from leasehold.claim where place = (select min(place) from leasehold.claim)");
    assert_eq!(lost(&guard).await, Lost::Gone);
    heard(waiting).await.release().await.unwrap();
    // A session without its row has a new one soon.
    let guard = lock(&one, "ledger").await;
    server.sql("delete from leasehold.session");
    assert_eq!(lost(&guard).await, Lost::Gone);
    lock(&one, "ledger").await.release().await.unwrap();
}

#[testbed::test]
async fn a_failover_lifts_the_counter_and_verifies_what_is_held() {
    let (_folder, server) = postgres(&[]);
    let one = session(&server.url(), "ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    // As it looks after a failover to a standby which had not got everything.
    server.sql("update leasehold.meta set server = 'another 00000001'");
    server.sql("select setval('leasehold.token', 1)");
    server.sql("delete from leasehold.claim");
    server.end_connections();
    assert_eq!(lost(&guard).await, Lost::Gone);
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}
