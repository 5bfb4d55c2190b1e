//! Servers that die or stand still, while a lock is held and while one is
//! waited for.

use std::time::{Duration, Instant};

use leasehold::{Lost, Session};

use super::{
    Client, Zookeeper, ensemble, inspector, lock, lost, only_child, queue_of, session,
    wait_for_lock,
};
use testbed::wait_for;

/// A session that is on this server: which one it is is left to chance.
async fn session_on(zookeeper: &Zookeeper, server: usize, options: &str) -> Session {
    let mut client = zookeeper.client();
    for _ in 0..100 {
        let session = session(&zookeeper.url(), options).await;
        let guard = lock(&session, "where-am-i").await;
        // A follower may be behind.
        let (_, owner) = wait_for("the node", || {
            let children = client.children("/where-am-i").ok()?;
            let child = children.first()?;
            client.stat(&format!("/where-am-i/{child}")).ok()
        });
        guard.release().await.unwrap();
        if zookeeper.servers[server].has_session(owner) {
            return session;
        }
        session.close().await;
    }
    panic!("no session was on server {server}");
}

/// A hold and a wait go on while something happens to the server that both
/// sessions are on.
async fn holds_and_waits(
    choose: impl Fn(&Zookeeper) -> usize,
    harm: impl FnOnce(&mut Zookeeper, usize),
) {
    let (_folder, mut zookeeper) = ensemble(3);
    let server = choose(&zookeeper);
    let one = session_on(&zookeeper, server, "ttl=12s").await;
    let other = session_on(&zookeeper, server, "ttl=12s").await;
    let inspector = inspector(&zookeeper.url()).await;
    let guard = lock(&one, "ledger").await;
    let token = guard.token();
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector, "ledger", 2).await;
    let began = Instant::now();
    harm(&mut zookeeper, server);
    // The hold outlives its lease's first ttl, so it was renewed elsewhere.
    while began.elapsed() < Duration::from_secs(13) {
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
    holds_and_waits(Zookeeper::leader, |zookeeper, leader| {
        zookeeper.servers[leader].kill();
    })
    .await;
}

#[testbed::test]
async fn the_leader_that_others_talk_to_is_killed_and_comes_back() {
    holds_and_waits(Zookeeper::follower, |zookeeper, _| {
        let leader = zookeeper.leader();
        zookeeper.servers[leader].kill();
        zookeeper.servers[leader].start_again();
    })
    .await;
}

#[testbed::test]
async fn the_follower_that_we_talk_to_is_killed_and_comes_back() {
    holds_and_waits(Zookeeper::follower, |zookeeper, follower| {
        zookeeper.servers[follower].kill();
        zookeeper.servers[follower].start_again();
    })
    .await;
}

#[testbed::test]
async fn the_follower_that_we_talk_to_stands_still() {
    holds_and_waits(Zookeeper::follower, |zookeeper, follower| {
        zookeeper.servers[follower].stop();
    })
    .await;
}

#[testbed::test]
async fn the_leader_stands_still() {
    holds_and_waits(Zookeeper::leader, |zookeeper, leader| {
        zookeeper.servers[leader].stop();
    })
    .await;
}

/// A follower answers reads and pings for seconds after it has lost its leader.
/// None of that keeps a session.
#[testbed::test(timed)]
async fn what_a_follower_says_without_its_leader_renews_nothing() {
    let (_folder, zookeeper) = ensemble(3);
    let (leader, follower) = (zookeeper.leader(), zookeeper.follower());
    let one = session_on(&zookeeper, follower, "ttl=2s").await;
    let guard = lock(&one, "ledger").await;
    let port = zookeeper.servers[follower].port;
    let mut client = Client::connect(port).unwrap();
    let node = only_child(&mut client, "/ledger");
    let began = Instant::now();
    zookeeper.servers[leader].stop();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    let told = began.elapsed();
    assert!(told < Duration::from_secs(2), "{told:?}");
    // The follower still answers, and still shows the node: its word is not
    // what we go by.
    client.stat(&node).unwrap();
    zookeeper.servers[leader].resume();
}

#[testbed::test]
async fn without_a_majority_a_hold_is_lost_at_its_deadline() {
    let (_folder, mut zookeeper) = ensemble(3);
    let one = session(&zookeeper.url(), "ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    zookeeper.servers[1].kill();
    zookeeper.servers[2].kill();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    // It comes back, and so does the session.
    zookeeper.servers[1].start_again();
    zookeeper.wait_until_served();
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_hold_survives_a_restart_of_the_only_server() {
    let (_folder, mut zookeeper) = ensemble(1);
    let (one, other) = (
        session(&zookeeper.url(), "ttl=30s").await,
        session(&zookeeper.url(), "ttl=30s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&zookeeper.url()).await, "ledger", 2).await;
    zookeeper.servers[0].restart();
    guard.check().unwrap();
    queue_of(&inspector(&zookeeper.url()).await, "ledger", 2).await;
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token() > token);
}

/// A request for a place that stays in a server which stands still, and comes
/// when nobody wants it any more.
#[testbed::test]
async fn a_request_that_was_given_up_does_nothing_when_it_arrives_late() {
    let (_folder, zookeeper) = ensemble(3);
    let follower = zookeeper.follower();
    let one = session_on(&zookeeper, follower, "ttl=20s").await;
    lock(&one, "ledger").await.release().await.unwrap();
    zookeeper.servers[follower].stop();
    let mutex = one.mutex("ledger");
    let given_up = tokio::time::timeout(Duration::from_millis(500), mutex.lock()).await;
    assert!(given_up.is_err(), "the server stands still");
    // The withdrawal goes over another server; then the lock is free.
    let other = session(&zookeeper.servers[zookeeper.leader()].url(), "ttl=20s").await;
    lock(&other, "ledger").await.release().await.unwrap();
    zookeeper.servers[follower].resume();
    wait_for("the follower that serves again", || {
        zookeeper.servers[follower].mode()
    });
    // Through the same follower: whatever it had is before this.
    let url = zookeeper.servers[follower].url();
    let through = session(&url, "ttl=20s").await;
    let guard = through.mutex("ledger").try_lock().await.unwrap();
    let guard = guard.expect("nobody is in the queue");
    let queue = inspector(&url).await.queue("ledger").await.unwrap();
    assert_eq!(queue.claims.len(), 1);
    guard.release().await.unwrap();
}
