//! Members that die or stand still, while a lock is held and while one is
//! waited for.

use std::time::{Duration, Instant};

use leasehold::Lost;

use super::{Etcd, cluster, inspector, lock, lost, queue_of, session, wait_for_lock};

/// The URL with this member first: the one that is talked to.
fn url_from(etcd: &Etcd, first: usize) -> String {
    let count = etcd.members.len();
    let order = (0..count).map(|number| (first + number) % count);
    let places: Vec<_> = order
        .map(|number| format!("127.0.0.1:{}", etcd.members[number].port()))
        .collect();
    format!("etcd://{}", places.join(","))
}

/// A hold and a wait go on while something happens to a member.
async fn holds_and_waits(first: impl Fn(&Etcd) -> usize, harm: impl FnOnce(&mut Etcd, usize)) {
    let (_folder, mut etcd) = cluster(3);
    let member = first(&etcd);
    let url = url_from(&etcd, member);
    let (one, other) = (session(&url, "ttl=6s").await, session(&url, "ttl=6s").await);
    let inspector = inspector(&url).await;
    let guard = lock(&one, "ledger").await;
    let token = guard.token();
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector, "ledger", 2).await;
    let began = Instant::now();
    harm(&mut etcd, member);
    // The hold outlives its lease's first ttl, so it was renewed elsewhere.
    while began.elapsed() < Duration::from_secs(7) {
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

#[testbed::test]
async fn the_leader_that_we_talk_to_is_killed() {
    holds_and_waits(Etcd::leader, |etcd, leader| etcd.members[leader].kill()).await;
}

#[testbed::test]
async fn the_leader_that_we_talk_to_is_killed_and_comes_back() {
    holds_and_waits(Etcd::leader, |etcd, leader| {
        etcd.members[leader].restart();
    })
    .await;
}

#[testbed::test]
async fn the_follower_that_we_talk_to_is_killed_and_comes_back() {
    let follower = |etcd: &Etcd| (etcd.leader() + 1) % 3;
    holds_and_waits(follower, |etcd, follower| {
        etcd.members[follower].kill();
        etcd.members[follower].restart();
    })
    .await;
}

#[testbed::test]
async fn the_follower_that_we_talk_to_stands_still() {
    let follower = |etcd: &Etcd| (etcd.leader() + 1) % 3;
    holds_and_waits(follower, |etcd, follower| etcd.members[follower].stop()).await;
}

#[testbed::test]
async fn the_leader_stands_still() {
    holds_and_waits(Etcd::leader, |etcd, leader| etcd.members[leader].stop()).await;
}

/// A leader that stood still for longer than a lease lasts takes the leases for
/// over when it goes on, and some versions end them then. A hold may be lost by
/// that; it is told, and the tokens are in order.
#[testbed::test(timed)]
async fn the_leader_stands_still_and_goes_on() {
    let (_folder, etcd) = cluster(3);
    let leader = etcd.leader();
    let url = url_from(&etcd, (leader + 1) % 3);
    let (one, other) = (session(&url, "ttl=5s").await, session(&url, "ttl=5s").await);
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&url).await, "ledger", 2).await;
    etcd.members[leader].stop();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    etcd.members[leader].resume();
    let told = tokio::time::timeout(Duration::from_secs(6), guard.lost()).await;
    match told {
        Ok(lost) => assert_eq!(lost, Lost::Gone),
        Err(_) => assert!(!waiting.is_finished(), "two have it"),
    }
    let token = guard.token();
    // It may be lost.
    let _ = guard.release().await;
    let next = waiting.await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

#[testbed::test]
async fn without_a_majority_a_hold_is_lost_at_its_deadline() {
    let (_folder, mut etcd) = cluster(3);
    let one = session(&etcd.url(), "ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    etcd.members[1].kill();
    etcd.members[2].kill();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    // It comes back, and so does the session.
    etcd.members[1].restart();
    etcd.wait_until_writable();
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_hold_survives_a_restart_of_the_only_member() {
    let (_folder, mut etcd) = cluster(1);
    let (one, other) = (
        session(&etcd.url(), "ttl=20s").await,
        session(&etcd.url(), "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&etcd.url()).await, "ledger", 2).await;
    etcd.members[0].restart();
    guard.check().unwrap();
    queue_of(&inspector(&etcd.url()).await, "ledger", 2).await;
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token() > token);
}
