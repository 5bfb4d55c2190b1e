//! A queue so long that nobody reads all of it to come into it.

use super::{ONE, inspector, lock, queue_of, session, try_lock, wait_for_lock};
use testbed::wait_for;

/// More than are read to find whom one comes after.
const CROWD: u32 = 250;

#[testbed::test]
async fn behind_a_long_queue_everybody_has_a_turn_in_order() {
    let etcd = ONE.take();
    let crowd = leasehold::bare_etcd(&etcd.url()).await.unwrap();
    crowd.crowd("ledger", CROWD).await.unwrap();
    let inspector = inspector(&etcd.url()).await;
    let mut waiting = Vec::new();
    let mut sessions = Vec::new();
    for number in 1..=4 {
        let session = session(&etcd.url(), "ttl=20s").await;
        waiting.push(wait_for_lock(&session, "ledger"));
        sessions.push(session);
        queue_of(&inspector, "ledger", CROWD as usize + number).await;
    }
    let trying = session(&etcd.url(), "ttl=20s").await;
    assert!(try_lock(&trying, "ledger").await.is_none());
    // One gives up: the one behind it wakes, and is not granted anything.
    waiting.remove(1).abort();
    queue_of(&inspector, "ledger", CROWD as usize + 3).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    // The crowd goes.
    crowd.close().await.unwrap();
    let mut last = None;
    for waiting in waiting {
        let guard = waiting.await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        assert!(try_lock(&trying, "ledger").await.is_none());
        guard.release().await.unwrap();
    }
    // The tail is still there, and in nobody's way.
    assert_ne!(etcd.ctl(&["get", "leasehold/tail/", "--prefix"]), "");
    let tried = try_lock(&trying, "ledger").await;
    tried.expect("nobody has it").release().await.unwrap();
    let guard = lock(&trying, "ledger").await;
    guard.release().await.unwrap();
}

/// A claim that came in another way, after the last that left its name at the
/// tail, is not overtaken.
#[testbed::test]
async fn a_claim_that_is_not_at_the_tail_is_waited_for() {
    let etcd = ONE.take();
    let crowd = leasehold::bare_etcd(&etcd.url()).await.unwrap();
    crowd.crowd("ledger", CROWD).await.unwrap();
    let inspector = inspector(&etcd.url()).await;
    let length = CROWD as usize;
    let first = session(&etcd.url(), "ttl=20s").await;
    let waits_first = wait_for_lock(&first, "ledger");
    queue_of(&inspector, "ledger", length + 1).await;
    // It knows nothing of tails.
    let stranger = leasehold::bare_etcd(&etcd.url()).await.unwrap();
    stranger.crowd("ledger", 1).await.unwrap();
    let second = session(&etcd.url(), "ttl=20s").await;
    let waits_second = wait_for_lock(&second, "ledger");
    queue_of(&inspector, "ledger", length + 3).await;
    crowd.close().await.unwrap();
    let guard = waits_first.await.unwrap();
    let before = etcd.members[0].calls("Txn");
    guard.release().await.unwrap();
    // That was one; when the second one is woken and looks, that is another.
    wait_for("a look at the queue", || {
        (etcd.members[0].calls("Txn") >= before + 2).then_some(())
    });
    queue_of(&inspector, "ledger", 2).await;
    assert!(!waits_second.is_finished());
    stranger.close().await.unwrap();
    let guard = waits_second.await.unwrap();
    guard.release().await.unwrap();
}
