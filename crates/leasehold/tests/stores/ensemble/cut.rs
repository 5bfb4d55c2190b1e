//! A client that is cut off: from the member that it talks to, or from all of them.

use std::time::{Duration, Instant};

use leasehold::Lost;

use super::{Cable, Cut, Ensemble, cases, ensemble};
use crate::steps::{
    inspector, lock, lost, queue_of, queued_behind, renewed, session, wait_for_lock,
};

cases![
    cut_from_its_member_without_a_word_a_hold_survives,
    cut_from_its_member_with_a_reset_a_hold_survives,
    cut_from_all_without_a_word_a_hold_is_lost_in_time,
    cut_from_all_with_a_reset_a_hold_is_lost_in_time,
    a_waiter_that_is_back_in_time_has_its_place,
];

/// How long one member is the only one, at least.
const PHASE: Duration = Duration::from_secs(6);

/// A cable to each member, and the URL of those.
fn cables<E: Ensemble>(ensemble: &E) -> (Vec<Cable>, String) {
    let cables: Vec<_> = ensemble.ports().into_iter().map(Cable::to).collect();
    let url = E::url_of(cables.iter().map(|cable| cable.port));
    (cables, url)
}

/// The hold and the wait go on while a single member can be reached, each in turn.
async fn survives_cuts<E: Ensemble>(how: Cut) {
    let (_folder, ensemble) = ensemble::<E>(3);
    let (cables, url) = cables(&ensemble);
    let one = session(&url, "ttl=20s").await;
    let other = session(&url, "ttl=20s").await;
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&ensemble.url()).await, "ledger", 2).await;
    for open in [0, 1, 2, 0] {
        cables[open].mend();
        for (_, cable) in cables.iter().enumerate().filter(|(at, _)| *at != open) {
            cable.cut(how);
        }
        // All of it lasts longer than the lease does by itself.
        let then = Instant::now();
        renewed(&guard, 1).await;
        while then.elapsed() < PHASE {
            guard.check().unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert!(!waiting.is_finished());
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token() > token);
}

async fn cut_from_its_member_without_a_word_a_hold_survives<E: Ensemble>() {
    survives_cuts::<E>(Cut::Silent).await;
}

async fn cut_from_its_member_with_a_reset_a_hold_survives<E: Ensemble>() {
    survives_cuts::<E>(Cut::Torn).await;
}

/// A holder that is cut off from all members finds its hold lost before another session
/// is granted the lock.
async fn is_lost_before_another_holds<E: Ensemble>(how: Cut) {
    let (_folder, ensemble) = ensemble::<E>(3);
    let (cables, url) = cables(&ensemble);
    let cut_off = session(&url, "ttl=3s").await;
    let other = session(&ensemble.url(), "ttl=20s").await;
    let guard = lock(&cut_off, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queued_behind(&inspector(&ensemble.url()).await, &guard).await;
    cables.iter().for_each(|cable| cable.cut(how));
    let next = waiting.await.unwrap();
    guard.check().unwrap_err();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    // Back again, the session has a new lease.
    cables.iter().for_each(Cable::mend);
    let again = lock(&cut_off, "ledger").await;
    again.release().await.unwrap();
}

async fn cut_from_all_without_a_word_a_hold_is_lost_in_time<E: Ensemble>() {
    is_lost_before_another_holds::<E>(Cut::Silent).await;
}

async fn cut_from_all_with_a_reset_a_hold_is_lost_in_time<E: Ensemble>() {
    is_lost_before_another_holds::<E>(Cut::Torn).await;
}

/// Cut off while waiting, and back in time: the place in the queue is kept.
async fn a_waiter_that_is_back_in_time_has_its_place<E: Ensemble>() {
    let ensemble = E::one();
    let (cables, url) = cables(&*ensemble);
    let holder = session(&ensemble.url(), "ttl=30s").await;
    let first = session(&url, "ttl=30s").await;
    let second = session(&ensemble.url(), "ttl=30s").await;
    let inspector = inspector(&ensemble.url()).await;
    let guard = lock(&holder, "ledger").await;
    let first = wait_for_lock(&first, "ledger");
    queue_of(&inspector, "ledger", 2).await;
    let second = wait_for_lock(&second, "ledger");
    queue_of(&inspector, "ledger", 3).await;
    cables[0].cut(Cut::Torn);
    guard.release().await.unwrap();
    queue_of(&inspector, "ledger", 2).await;
    cables[0].mend();
    let guard = first.await.unwrap();
    assert!(!second.is_finished());
    guard.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}
