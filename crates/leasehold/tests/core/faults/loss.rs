//! Holds that are lost or broken, in awkward moments.

use std::time::Duration;

use leasehold::Lost;

use super::{break_lock, cut_renewals, ms, on_a_network};
use crate::simulation::faulty::{End, Fate};

/// After a pause the watchdog may be the last to hear that the deadline has
/// passed; whoever asks for a lock in that moment has to let it, and not ask
/// the store again and again under a lease that is over. In real time, because
/// only a blocked thread gets us there.
#[tokio::test]
async fn asking_past_the_deadline_waits_for_the_next_lease() {
    let (_, network, session) = on_a_network().await;
    network.skip_network();
    cut_renewals(&network);
    let guard = session.mutex("x").lock().await.unwrap();
    std::thread::sleep(guard.valid_for() + ms(5));
    let again = session.mutex("y").lock().await.unwrap();
    again.check().unwrap();
    assert_eq!(network.count("enqueue"), 2);
}

/// The news of a broken lock is there while the renewal that will tell us whose
/// it was is still on its way.
#[tokio::test(start_paused = true)]
async fn news_during_a_slow_renewal_does_not_make_the_watchdog_spin() {
    let (store, network, session) = on_a_network().await;
    let guard = session.mutex("x").lock().await.unwrap();
    network.next(
        "renew",
        Fate {
            before: ms(50),
            after: ms(50),
            ..Fate::SWIFT
        },
    );
    break_lock(&store, "x").await;
    assert_eq!(guard.lost().await, Lost::Evicted);
}

/// The reply that told us is lost; the store says it again.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_does_not_hide_that_the_lock_was_broken() {
    let (store, network, session) = on_a_network().await;
    let guard = session.mutex("x").lock().await.unwrap();
    network.next(
        "renew",
        Fate {
            end: End::Broken,
            ..Fate::SWIFT
        },
    );
    break_lock(&store, "x").await;
    assert_eq!(guard.lost().await, Lost::Evicted);
}

/// The renewal that says so overtakes the reply that grants the lock.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_broken_on_its_way_to_us_is_lost() {
    let (store, network, session) = on_a_network().await;
    network.next(
        "enqueue",
        Fate {
            after: ms(200),
            ..Fate::SWIFT
        },
    );
    let locking = tokio::spawn(async move { session.mutex("x").lock().await });
    tokio::time::sleep(ms(50)).await;
    break_lock(&store, "x").await;
    let guard = locking.await.unwrap().unwrap();
    assert_eq!(guard.lost().await, Lost::Evicted);
    assert!(guard.held() < ms(50), "{:?}", guard.held());
}

/// The watchdog says that the hold has reached its limit in the very moment in
/// which it is given back, on another thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hold_is_either_given_back_or_lost_and_leaves_nothing_either_way() {
    let (store, network, session) = on_a_network().await;
    network.skip_network();
    let mut tasks = Vec::new();
    for number in 0..400 {
        let mutex = session.mutex(format!("x{number}")).max_hold(ms(3));
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let guard = mutex.lock().await.unwrap();
                while guard.valid_for() > Duration::from_micros(30) {
                    tokio::task::yield_now().await;
                }
                let _ = guard.release().await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    session
        .mutex("last")
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    tokio::time::sleep(ms(200)).await;
    assert_eq!(store.claim_count(), 0);
}
