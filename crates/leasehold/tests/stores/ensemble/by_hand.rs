//! What people do to claims and sessions with the store's own tools.

use leasehold::Lost;

use super::{Claim, Ensemble, cases};
use crate::steps::{inspector, lock, lost, queue_of, session, wait_for_lock};
use testbed::wait_for;

cases![
    a_held_claim_that_was_deleted_by_hand_is_lost,
    a_waiting_claim_that_was_deleted_by_hand_queues_again,
    a_session_that_was_ended_by_hand_is_told_and_followed_by_another,
    a_waiter_whose_session_was_ended_by_hand_queues_again,
];

/// The next renewal is twenty minutes away: the store tells.
const NEVER: &str = "ttl=1h";

async fn a_held_claim_that_was_deleted_by_hand_is_lost<E: Ensemble>() {
    let ensemble = E::one();
    let one = session(&ensemble.url(), E::HEARS).await;
    let guard = lock(&one, "ledger").await;
    ensemble.delete(&ensemble.claims("ledger")[0]);
    assert_eq!(lost(&guard).await, Lost::Gone);
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

/// The harm removes the claim of a waiter; the waiter queues again with another.
async fn queues_again<E: Ensemble>(options: &str, harm: impl Fn(&E, &Claim)) {
    let ensemble = E::one();
    let one = session(&ensemble.url(), options).await;
    let other = session(&ensemble.url(), options).await;
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&ensemble.url()).await, "ledger", 2).await;
    let waits = || ensemble.claims("ledger").into_iter().nth(1);
    let before = waits().unwrap();
    harm(&ensemble, &before);
    wait_for("another claim", || waits().filter(|claim| *claim != before));
    assert!(!waiting.is_finished());
    guard.check().unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token() > token);
}

async fn a_waiting_claim_that_was_deleted_by_hand_queues_again<E: Ensemble>() {
    queues_again("ttl=30s", E::delete).await;
}

async fn a_waiter_whose_session_was_ended_by_hand_queues_again<E: Ensemble>() {
    queues_again(NEVER, E::end_session).await;
}

async fn a_session_that_was_ended_by_hand_is_told_and_followed_by_another<E: Ensemble>() {
    let ensemble = E::one();
    let one = session(&ensemble.url(), NEVER).await;
    let other = session(&ensemble.url(), NEVER).await;
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&ensemble.url()).await, "ledger", 2).await;
    ensemble.end_session(&ensemble.claims("ledger")[0]);
    assert_eq!(lost(&guard).await, Lost::Gone);
    let next = waiting.await.unwrap();
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}
