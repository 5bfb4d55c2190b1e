//! What the server tells of, and what it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::Lost;

use super::way::Way;
use super::{ONE, inspector, lock, lost, only_child, queue_of, session, wait_for_lock};
use crate::{LONG, answered};
use testbed::wait_for;

const EXISTS: i32 = 3;
const EPHEMERAL_SEQUENTIAL: i32 = 3;

#[testbed::test]
async fn a_claim_behind_one_that_it_may_not_read_gets_in() {
    let zookeeper = ONE.take();
    let mut client = zookeeper.client();
    client.create("/ledger", 0).unwrap();
    let first = client.create_for(
        "/ledger/_c_admin-lock-",
        EPHEMERAL_SEQUENTIAL,
        "digest",
        "admin:none",
    );
    let one = session(&zookeeper.url(), "ttl=30s").await;
    let waiting = wait_for_lock(&one, "ledger");
    wait_for("two claims", || {
        let children = client.children("/ledger").unwrap();
        (children.len() == 2).then_some(())
    });
    let began = Instant::now();
    client.delete(&first.unwrap()).unwrap();
    let guard = waiting.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    guard.release().await.unwrap();
}

/// The server forgets a watch when it has told of it.
#[testbed::test]
async fn a_held_node_is_watched_again_after_it_was_changed() {
    let zookeeper = ONE.take();
    let way = Way::to(zookeeper.servers[0].port);
    let url = format!("zk://127.0.0.1:{}", way.port);
    let one = session(&url, "ttl=60s").await;
    let guard = lock(&one, "ledger").await;
    let seen = || way.log().iter().filter(|kind| **kind == EXISTS).count();
    wait_for("a watch", || (seen() > 0).then_some(()));
    let mut client = zookeeper.client();
    let node = only_child(&mut client, "/ledger");
    let before = seen();
    client.set(&node, b"__REVOKE__").unwrap();
    // The session looks at it, and then has it watched again.
    wait_for("a look and a watch", || {
        (seen() >= before + 2).then_some(())
    });
    guard.check().unwrap();
    let began = Instant::now();
    client.delete(&node).unwrap();
    assert_eq!(lost(&guard).await, Lost::Gone);
    // The next renewal would come a third of the ttl later.
    assert!(began.elapsed() < Duration::from_secs(8));
}

/// Children come and go all the time, so no two lists are alike.
#[testbed::test]
async fn a_busy_lock_does_not_throw_its_waiters_out() {
    let zookeeper = ONE.take();
    let one = session(&zookeeper.url(), "ttl=20s").await;
    let other = session(&zookeeper.url(), "ttl=20s").await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(one.semaphore("pool", 4).acquire().await.unwrap());
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let churning: Vec<_> = (0..4)
        .map(|number| {
            let (mut client, is_over) = (zookeeper.client(), is_over.clone());
            std::thread::spawn(move || {
                let path = format!("/pool/other-{number}");
                while !is_over.load(Ordering::Acquire) {
                    client.create(&path, 0).unwrap();
                    client.delete(&path).unwrap();
                }
            })
        })
        .collect();
    let pool = other.semaphore("pool", 4);
    let waiting = tokio::spawn(async move { pool.acquire_many_within(2, LONG).await });
    let inspector = inspector(&zookeeper.url()).await;
    queue_of(&inspector, "pool", 4).await;
    let queue = || answered(|| inspector.queue("pool"));
    let last = queue().await.claims[3].id;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        let queue = queue().await;
        assert_eq!(queue.claims.get(3).map(|claim| claim.id), Some(last));
    }
    held.pop().unwrap().release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    is_over.store(true, Ordering::Release);
    churning
        .into_iter()
        .for_each(|churning| churning.join().unwrap());
}
