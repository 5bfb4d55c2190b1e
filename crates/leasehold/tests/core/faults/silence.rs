//! Requests that are never answered.

use leasehold::{Effect, ErrorKind, Session};

use super::{TTL, ms, on_a_network};
use crate::simulation::faulty::{End, Fate};

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

/// "Held elsewhere" would be a guess.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_before_the_first_answer_does_not_blame_others() {
    let (_, network, session) = on_a_network().await;
    network.next(
        "enqueue",
        Fate {
            deliveries: 0,
            end: End::Silence,
            ..Fate::SWIFT
        },
    );
    let error = session.mutex("x").lock_within(ms(20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
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
