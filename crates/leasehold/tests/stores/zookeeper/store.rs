//! What other hands do in the store while a lock is held or waited for.

use std::time::{Duration, Instant};

use leasehold::Lost;

use super::{
    Client, ensemble, inspector, lock, lost, only_child, queue_of, session, wait_for_lock,
};
use testbed::wait_for;

#[testbed::test]
async fn a_held_node_that_is_deleted_by_hand_is_told_at_once() {
    let (_folder, zookeeper) = ensemble(1);
    let one = session(&zookeeper.url(), "ttl=30s").await;
    let guard = lock(&one, "ledger").await;
    let mut client = zookeeper.client();
    let node = only_child(&mut client, "/ledger");
    let began = Instant::now();
    client.delete(&node).unwrap();
    assert_eq!(lost(&guard).await, Lost::Gone);
    // Long before a renewal would have found it.
    assert!(began.elapsed() < Duration::from_secs(5));
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_waiting_node_that_is_deleted_by_hand_queues_again() {
    let (_folder, zookeeper) = ensemble(1);
    let (one, other) = (
        session(&zookeeper.url(), "ttl=3s").await,
        session(&zookeeper.url(), "ttl=3s").await,
    );
    let inspector = inspector(&zookeeper.url()).await;
    let guard = lock(&one, "ledger").await;
    let mut client = zookeeper.client();
    let held = only_child(&mut client, "/ledger");
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector, "ledger", 2).await;
    let children = client.children("/ledger").unwrap();
    let mut nodes = children.iter().map(|child| format!("/ledger/{child}"));
    let second = nodes.find(|node| *node != held).unwrap();
    client.delete(&second).unwrap();
    queue_of(&inspector, "ledger", 2).await;
    assert!(!waiting.is_finished());
    guard.check().unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token() > token);
}

/// What the server makes of a session's number; it is the same everywhere.
fn password_of(session: i64) -> [u8; 16] {
    const SECRET: i64 = 0xB341_5C00;
    let mut seed = ((session ^ SECRET) ^ 0x5_DEEC_E66D) & ((1 << 48) - 1);
    let mut password = [0; 16];
    for four in password.chunks_mut(4) {
        seed = seed.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        let number = (seed >> 16).to_le_bytes();
        four.copy_from_slice(&number[..4]);
    }
    password
}

#[testbed::test]
async fn a_session_that_the_server_ends_is_told_and_followed_by_another() {
    let (_folder, zookeeper) = ensemble(1);
    let (one, other) = (
        session(&zookeeper.url(), "ttl=30s").await,
        session(&zookeeper.url(), "ttl=30s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&zookeeper.url()).await, "ledger", 2).await;
    let mut client = zookeeper.client();
    let held = client.children("/ledger").unwrap();
    let owners: Vec<_> = held
        .iter()
        .map(|node| client.stat(&format!("/ledger/{node}")).unwrap())
        .collect();
    let (_, owner) = *owners.iter().min().unwrap();
    // Whoever has number and password has the session, and may end it.
    let port = zookeeper.servers[0].port;
    // Its owner takes it back at once, perhaps before it is ended.
    wait_for("the end of the session", || {
        Client::end_session(port, owner, &password_of(owner));
        let left = client.children("/ledger").unwrap();
        (left.len() == 1).then_some(())
    });
    assert_eq!(lost(&guard).await, Lost::Gone);
    let next = waiting.await.unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_broken_lock_is_told_with_the_reason() {
    let (_folder, zookeeper) = ensemble(1);
    let one = session(&zookeeper.url(), "ttl=30s").await;
    let guard = lock(&one, "a/b").await;
    let inspector = inspector(&zookeeper.url()).await;
    let began = Instant::now();
    let evicted = inspector.evict("a/b", "ann", "it is stuck").await;
    assert_eq!(evicted.unwrap(), 1);
    assert_eq!(lost(&guard).await, Lost::Evicted);
    assert!(began.elapsed() < Duration::from_secs(5));
    let queue = inspector.queue("a/b").await.unwrap();
    assert_eq!(queue.evictions[0].reason, "it is stuck");
    assert_eq!(queue.evictions[0].token, guard.token());
}

/// A future of the user's that is begun and then left alone keeps nobody else
/// from the connection.
#[testbed::test]
async fn a_future_that_is_not_polled_holds_up_nobody() {
    let (_folder, zookeeper) = ensemble(1);
    let one = session(&zookeeper.url(), "ttl=2s").await;
    let guard = lock(&one, "ledger").await;
    let mut stalled = Vec::new();
    for number in 0..20 {
        let mutex = one.mutex(format!("stalled/{number}"));
        let mut future = Box::pin(async move { mutex.lock().await });
        // Begun: its request is on its way.
        let begun = tokio::time::timeout(Duration::ZERO, &mut future).await;
        stalled.push((future, begun));
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        lock(&one, "other").await.release().await.unwrap();
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
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
    let (_folder, zookeeper) = ensemble(1);
    let one = session(&zookeeper.url(), "ttl=3s").await;
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
    // The rest of the session is renewed, for longer than it would last.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        other.check().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// More than fits into one read: a list with names as long as can be.
#[testbed::test]
async fn an_answer_of_more_than_a_megabyte_is_read() {
    let (_folder, zookeeper) = ensemble(1);
    let mut client = zookeeper.client();
    client.create("/ledger", 0).unwrap();
    for letter in ["a", "b", "c"] {
        let child = letter.repeat(400_000);
        client.create(&format!("/ledger/{child}"), 0).unwrap();
    }
    let one = session(&zookeeper.url(), "ttl=5s").await;
    lock(&one, "ledger").await.release().await.unwrap();
}
