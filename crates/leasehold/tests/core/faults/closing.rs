//! Closing and cleaning up.

use super::{ms, on_a_network};
use crate::simulation::faulty::{End, Fate};

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

/// The reaper cannot run there, and the store lets go by itself.
#[test]
fn closing_ends_with_the_ttl_though_the_sessions_runtime_stands_still() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let (home, abroad) = (runtime(), runtime());
    let session = home.block_on(leasehold::connect("memory:?ttl=100ms"));
    let closing = session.unwrap().close();
    let closed = abroad.block_on(async { tokio::time::timeout(ms(20_000), closing).await });
    closed.expect("the ttl has long passed");
}
