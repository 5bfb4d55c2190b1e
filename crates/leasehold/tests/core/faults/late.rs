//! Requests that arrive when nobody expects them any more.

use leasehold::Session;

use super::{TTL, ms, on_a_network};
use crate::simulation::faulty::{End, Fate};

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
