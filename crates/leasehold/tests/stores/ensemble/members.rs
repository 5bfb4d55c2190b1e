//! Members that die or stand still, while a lock is held and while one is waited for.

use std::time::{Duration, Instant};

use leasehold::{Guard, Lost};

use super::{Ensemble, cases, ensemble};
use crate::steps::{inspector, lock, lost, queue_of, session, try_lock, wait_for_lock};
use testbed::wait_for;

cases![
    the_leader_that_we_talk_to_is_killed,
    the_leader_that_we_talk_to_is_killed_and_comes_back,
    the_leader_that_others_talk_to_is_killed_and_comes_back,
    the_follower_that_we_talk_to_is_killed_and_comes_back,
    the_follower_that_we_talk_to_stands_still,
    the_leader_stands_still,
    the_leader_stands_still_and_goes_on,
    without_a_majority_a_hold_is_lost_at_its_deadline,
    a_hold_survives_a_restart_of_the_only_member,
    a_request_that_was_given_up_does_nothing_when_it_arrives_late,
];

/// A busy machine renews it in time.
const TTL: Duration = Duration::from_secs(20);
const OPTIONS: &str = "ttl=20s";

/// Waits until the lease would be over that a guard had then; it was renewed meanwhile.
async fn outlives_its_lease(guard: &Guard, then: Instant) {
    while then.elapsed() < TTL + Duration::from_secs(1) {
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A hold and a wait go on while something happens to the member that both sessions
/// are on, or to another.
async fn holds_and_waits<E: Ensemble>(
    choose: impl Fn(&E) -> usize,
    harm: impl FnOnce(&mut E, usize),
) {
    let (_folder, mut ensemble) = ensemble::<E>(3);
    let ours = choose(&ensemble);
    let one = ensemble.session_on(ours, OPTIONS).await;
    let other = ensemble.session_on(ours, OPTIONS).await;
    let inspector = inspector(&ensemble.url()).await;
    let guard = lock(&one, "ledger").await;
    let token = guard.token();
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector, "ledger", 2).await;
    let then = Instant::now();
    harm(&mut ensemble, ours);
    outlives_its_lease(&guard, then).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

async fn the_leader_that_we_talk_to_is_killed<E: Ensemble>() {
    holds_and_waits(E::leader, E::kill).await;
}

async fn the_leader_that_we_talk_to_is_killed_and_comes_back<E: Ensemble>() {
    holds_and_waits(E::leader, E::restart).await;
}

async fn the_leader_that_others_talk_to_is_killed_and_comes_back<E: Ensemble>() {
    let leader = |ensemble: &mut E, _| ensemble.restart(ensemble.leader());
    holds_and_waits(E::follower, leader).await;
}

async fn the_follower_that_we_talk_to_is_killed_and_comes_back<E: Ensemble>() {
    holds_and_waits(E::follower, E::restart).await;
}

async fn the_follower_that_we_talk_to_stands_still<E: Ensemble>() {
    holds_and_waits(E::follower, |ensemble, ours| ensemble.stop(ours)).await;
}

async fn the_leader_stands_still<E: Ensemble>() {
    holds_and_waits(E::leader, |ensemble, ours| ensemble.stop(ours)).await;
}

/// A leader that stood still for longer than a lease lasts takes the leases for over when
/// it goes on, and some versions of etcd end them then. A hold may be lost by that; it is
/// told, and the tokens are in order.
async fn the_leader_stands_still_and_goes_on<E: Ensemble>() {
    let (_folder, ensemble) = ensemble::<E>(3);
    let (leader, follower) = (ensemble.leader(), ensemble.follower());
    let one = ensemble.session_on(follower, OPTIONS).await;
    let other = ensemble.session_on(follower, OPTIONS).await;
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&ensemble.url()).await, "ledger", 2).await;
    ensemble.stop(leader);
    outlives_its_lease(&guard, Instant::now()).await;
    ensemble.resume(leader);
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

async fn without_a_majority_a_hold_is_lost_at_its_deadline<E: Ensemble>() {
    let (_folder, mut ensemble) = ensemble::<E>(3);
    let one = session(&ensemble.url(), "ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    ensemble.kill(1);
    ensemble.kill(2);
    assert_eq!(lost(&guard).await, Lost::Deadline);
    // It comes back, and so does the session.
    ensemble.restart(1);
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

async fn a_hold_survives_a_restart_of_the_only_member<E: Ensemble>() {
    let (_folder, mut ensemble) = ensemble::<E>(1);
    let one = session(&ensemble.url(), "ttl=30s").await;
    let other = session(&ensemble.url(), "ttl=30s").await;
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&ensemble.url()).await, "ledger", 2).await;
    ensemble.restart(0);
    guard.check().unwrap();
    queue_of(&inspector(&ensemble.url()).await, "ledger", 2).await;
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token() > token);
}

/// A stopped member keeps a request for a place and carries it out after the caller gave up.
async fn a_request_that_was_given_up_does_nothing_when_it_arrives_late<E: Ensemble>() {
    let (_folder, ensemble) = ensemble::<E>(3);
    let follower = ensemble.follower();
    let one = ensemble.session_on(follower, OPTIONS).await;
    lock(&one, "ledger").await.release().await.unwrap();
    ensemble.stop(follower);
    let mutex = one.mutex("ledger");
    let given_up = tokio::time::timeout(Duration::from_millis(500), mutex.lock()).await;
    assert!(given_up.is_err(), "the member stands still");
    // The withdrawal goes over another member; then the lock is free.
    let other = session(&ensemble.url_to(ensemble.leader()), OPTIONS).await;
    lock(&other, "ledger").await.release().await.unwrap();
    ensemble.resume(follower);
    wait_for("the follower that serves again", || {
        ensemble.serves(follower).then_some(())
    });
    // Through the same follower: whatever it had is before this.
    let url = ensemble.url_to(follower);
    let through = session(&url, OPTIONS).await;
    let guard = try_lock(&through, "ledger").await;
    let guard = guard.expect("the queue is empty");
    queue_of(&inspector(&url).await, "ledger", 1).await;
    guard.release().await.unwrap();
}
