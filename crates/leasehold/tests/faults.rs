//! The session under single faults, chosen by hand: what the simulation or a
//! careful reader once found.

#![allow(clippy::unwrap_used, reason = "tests; the helpers too")]

#[path = "simulation/faulty.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod faulty;
#[path = "simulation/rng.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod rng;

use std::sync::Arc;
use std::time::Duration;

use faulty::{End, Fate, Faulty};
use leasehold::engine::{Cause, ClaimRef, Engine};
use leasehold::{Effect, ErrorKind, Lost, Memory, Name, Session};
use rng::Rng;

const TTL: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn on_a_network() -> (Arc<Memory>, Arc<Faulty>, Session) {
    let store = Memory::new();
    let network = Faulty::new(store.clone(), Rng::new(1));
    let session = Session::with_engine(network.clone(), TTL).await.unwrap();
    (store, network, session)
}

async fn break_lock(store: &Memory, name: &str) {
    let name = Name::new(name).unwrap();
    for id in store.holders_of(&name) {
        let claim = ClaimRef {
            name: name.clone(),
            id,
        };
        let cause = Cause::Evicted {
            by: "ann",
            reason: "stuck",
        };
        store.withdraw(&claim, cause).await.unwrap();
    }
}

/// Renewals that nobody answers, for a ttl.
fn cut_renewals(network: &Faulty) {
    for _ in 0..5 {
        network.next(
            "renew",
            Fate {
                deliveries: 0,
                end: End::Silence,
                ..Fate::SWIFT
            },
        );
    }
}

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

/// A request that is never answered, while the rest of the store works.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_answered_is_repeated() {
    let (store, network, session) = on_a_network().await;
    network.next(
        "enqueue",
        Fate {
            deliveries: 0,
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    let mutex = session.mutex("x");
    let guard = tokio::time::timeout(TTL * 2, mutex.lock())
        .await
        .unwrap()
        .unwrap();
    network.next(
        "wait",
        Fate {
            deliveries: 0,
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    let other = Session::with_engine(network.clone(), TTL).await.unwrap();
    let waiting = tokio::spawn(async move { other.mutex("x").lock().await.map(drop) });
    tokio::time::sleep(ms(50)).await;
    guard.release().await.unwrap();
    tokio::time::timeout(TTL * 2, waiting)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(store.claim_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_a_deadline_gives_up_on_a_store_that_never_answers() {
    let (_, network, session) = on_a_network().await;
    for _ in 0..200 {
        network.next(
            "enqueue",
            Fate {
                deliveries: 0,
                end: End::Silence,
                ..Fate::SWIFT
            },
        );
    }
    let mutex = session.mutex("x");
    let locking = tokio::time::timeout(ms(60_000), mutex.lock());
    let error = locking.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.effect(), Effect::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_never_answered_is_repeated() {
    let (store, network, session) = on_a_network().await;
    let guard = session.mutex("x").lock().await.unwrap();
    network.next(
        "withdraw",
        Fate {
            deliveries: 0,
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    tokio::time::timeout(TTL, guard.release())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(store.claim_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn lock_all_ends_at_its_deadline_also_if_the_store_hangs() {
    let (_, network, session) = on_a_network().await;
    let other = Session::with_engine(network.clone(), TTL).await.unwrap();
    let _held = other.mutex("b").lock().await.unwrap();
    for _ in 0..20 {
        network.next(
            "withdraw",
            Fate {
                deliveries: 0,
                end: End::Silence,
                ..Fate::SWIFT
            },
        );
    }
    let asked = tokio::time::Instant::now();
    session
        .lock_all(["a", "b"])
        .lock_within(ms(200))
        .await
        .unwrap_err();
    assert!(asked.elapsed() <= ms(300), "{:?}", asked.elapsed());
}

/// A request that was given up is delivered after the release of the claim
/// that its repetition had got.
#[tokio::test(start_paused = true)]
async fn a_late_request_leaves_no_claim_behind_the_release() {
    let (store, network, session) = on_a_network().await;
    network.next(
        "enqueue",
        Fate {
            before: ms(700),
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    let guard = session.mutex("x").lock().await.unwrap();
    guard.release().await.unwrap();
    assert!(network.count("enqueue") > 1);
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(store.claim_count(), 0);
}

/// The first request arrives, the claim is withdrawn, and then the second one
/// arrives.
#[tokio::test(start_paused = true)]
async fn two_late_requests_leave_no_claim_behind_the_withdrawal() {
    let (store, network, session) = on_a_network().await;
    network.next(
        "enqueue",
        Fate {
            before: ms(340),
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    network.next(
        "enqueue",
        Fate {
            before: ms(500),
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    session.mutex("x").lock_within(ms(350)).await.unwrap_err();
    assert!(network.count("enqueue") > 1);
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(store.claim_count(), 0);
}

/// The withdrawal finds nothing, the late request arrives, and only then the
/// answer to the withdrawal, after the time a request can be on its way.
#[tokio::test(start_paused = true)]
async fn what_a_withdrawal_finds_counts_from_when_it_was_sent() {
    let (store, network, session) = on_a_network().await;
    network.next(
        "enqueue",
        Fate {
            before: ms(990),
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    for _ in 0..50 {
        network.next(
            "withdraw",
            Fate {
                after: ms(300),
                ..Fate::SWIFT
            },
        );
    }
    session.mutex("x").lock_within(ms(1)).await.unwrap_err();
    tokio::time::sleep(TTL * 3).await;
    assert_eq!(store.claim_count(), 0);
}

/// A cancelled try must not pass its place on: it would make the next in line
/// a try as well.
#[tokio::test(start_paused = true)]
async fn a_cancelled_try_does_not_make_the_next_in_line_give_up() {
    let (_, network, session) = on_a_network().await;
    let other = Session::with_engine(network.clone(), TTL).await.unwrap();
    let held = other.mutex("x").lock().await.unwrap();
    network.next(
        "enqueue",
        Fate {
            before: ms(100),
            ..Fate::SWIFT
        },
    );
    let mutex = session.mutex("x");
    let trying = tokio::spawn(async move { mutex.try_lock().await.map(drop) });
    tokio::time::sleep(ms(10)).await;
    let mutex = session.mutex("x");
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    tokio::time::sleep(ms(10)).await;
    trying.abort();
    tokio::time::sleep(ms(500)).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap();
}

/// The store has renewed the lease that we had to give up, because its replies
/// were lost; closing must wait until that lease is ended too.
#[tokio::test(start_paused = true)]
async fn closing_between_two_leases_gives_back_what_the_first_one_had() {
    let (store, network, session) = on_a_network().await;
    for _ in 0..5 {
        network.next(
            "renew",
            Fate {
                end: End::Silence,
                ..Fate::SWIFT
            },
        );
    }
    network.next(
        "open",
        Fate {
            deliveries: 0,
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    network.next(
        "close",
        Fate {
            deliveries: 0,
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    network.next(
        "withdraw",
        Fate {
            deliveries: 0,
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    let guard = session.mutex("x").lock().await.unwrap();
    guard.lost().await;
    tokio::time::sleep(ms(5)).await;
    assert_eq!(store.claim_count(), 1);
    session.close().await;
    assert_eq!(store.claim_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_claims_in_doubt_do_not_hold_up_a_dropped_guard() {
    let (store, network, session) = on_a_network().await;
    let guard = session.mutex("x").lock().await.unwrap();
    let mut waits = Vec::new();
    for number in 0..100 {
        network.next(
            "enqueue",
            Fate {
                deliveries: 0,
                end: End::Silence,
                ..Fate::SWIFT
            },
        );
        let mutex = session.mutex(format!("y{number}"));
        waits.push(tokio::spawn(async move {
            mutex.lock_within(ms(1)).await.map(drop)
        }));
    }
    for wait in waits {
        wait.await.unwrap().unwrap_err();
    }
    drop(guard);
    tokio::time::sleep(ms(10)).await;
    assert_eq!(store.claim_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_withdrawals_that_hang() {
    let (store, network, session) = on_a_network().await;
    let mut guards = Vec::new();
    for number in 0..200 {
        network.next(
            "withdraw",
            Fate {
                deliveries: 0,
                end: End::Silence,
                ..Fate::SWIFT
            },
        );
        guards.push(session.mutex(format!("x{number}")).lock().await.unwrap());
    }
    let asked = tokio::time::Instant::now();
    session.close().await;
    assert!(asked.elapsed() < ms(100), "{:?}", asked.elapsed());
    assert_eq!(store.claim_count(), 0);
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
