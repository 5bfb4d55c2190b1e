//! What other hands do in the store while a lock is held or waited for.

use std::time::{Duration, Instant};

use leasehold::Lost;

use super::{ONE, ensemble, inspector, lock, lost, only_child, session};
use crate::{answered, renewed};

#[testbed::test]
async fn a_broken_lock_is_told_with_the_reason() {
    let zookeeper = ONE.take();
    // The next renewal is twenty minutes away: the server tells.
    let one = session(&zookeeper.url(), "ttl=1h").await;
    let guard = lock(&one, "a/b").await;
    let inspector = inspector(&zookeeper.url()).await;
    let evicted = inspector.evict("a/b", "ann", "it is stuck").await;
    assert_eq!(evicted.unwrap(), 1);
    assert_eq!(lost(&guard).await, Lost::Evicted);
    let queue = answered(|| inspector.queue("a/b")).await;
    assert_eq!(queue.evictions[0].reason, "it is stuck");
    assert_eq!(queue.evictions[0].token, guard.token());
}

/// A future of the user's that is begun and then left alone keeps nobody else
/// from the connection.
#[testbed::test]
async fn a_future_that_is_not_polled_holds_up_nobody() {
    let zookeeper = ONE.take();
    let one = session(&zookeeper.url(), "ttl=20s").await;
    let guard = lock(&one, "ledger").await;
    let mut stalled = Vec::new();
    for number in 0..20 {
        let mutex = one.mutex(format!("stalled/{number}"));
        let mut future = Box::pin(async move { mutex.lock().await });
        // Begun: its request is on its way.
        let begun = tokio::time::timeout(Duration::ZERO, &mut future).await;
        stalled.push((future, begun));
    }
    let working = async {
        loop {
            lock(&one, "other").await.release().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = renewed(&guard, 2) => {}
        () = working => {}
    }
    guard.release().await.unwrap();
}

/// A server whose limit was lowered grants less to a session that comes back.
/// It would end before our holders expect it.
#[testbed::test]
async fn a_session_that_comes_back_to_a_shorter_timeout_is_given_up() {
    let (_folder, mut zookeeper) = ensemble(1);
    let one = session(&zookeeper.url(), "ttl=30s").await;
    let guard = lock(&one, "ledger").await;
    let file = zookeeper.servers[0].folder.join("zoo.cfg");
    let lines = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{lines}\nmaxSessionTimeout=8000\n")).unwrap();
    let began = Instant::now();
    zookeeper.servers[0].restart();
    assert_eq!(lost(&guard).await, Lost::Gone);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[testbed::test]
async fn a_note_that_we_may_not_read_costs_one_hold_only() {
    let zookeeper = ONE.take();
    let one = session(&zookeeper.url(), "ttl=20s").await;
    let (guard, other) = (lock(&one, "ledger").await, lock(&one, "other").await);
    let mut client = zookeeper.client();
    let node = only_child(&mut client, "/ledger");
    let (czxid, _) = client.stat(&node).unwrap();
    for folder in [
        ".leasehold",
        ".leasehold/broken",
        ".leasehold/broken/ledger",
    ] {
        client.create(&format!("/{folder}"), 0).unwrap();
    }
    let note = format!("/.leasehold/broken/ledger/{czxid:016x}");
    client.create_for(&note, 0, "digest", "admin:none").unwrap();
    client.delete(&node).unwrap();
    assert_eq!(lost(&guard).await, Lost::Gone);
    // The rest of the session is renewed.
    renewed(&other, 2).await;
}

/// More than fits into one read: a list with names as long as can be.
#[testbed::test]
async fn an_answer_of_more_than_a_megabyte_is_read() {
    let zookeeper = ONE.take();
    let mut client = zookeeper.client();
    client.create("/ledger", 0).unwrap();
    for letter in ["a", "b", "c"] {
        let child = letter.repeat(400_000);
        client.create(&format!("/ledger/{child}"), 0).unwrap();
    }
    let one = session(&zookeeper.url(), "ttl=20s").await;
    lock(&one, "ledger").await.release().await.unwrap();
}
