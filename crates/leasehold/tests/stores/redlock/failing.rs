//! Nodes that fail while a lock is held.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Lost};

use crate::redlock::scene::{LONG, Scene, free, until, within};
use crate::renewed;

#[testbed::test]
async fn a_hold_outlives_a_minority_of_the_nodes() {
    let mut scene = Scene::start(5, &[]);
    let session = scene.session("ttl=20s").await;
    let guard = session.mutex("ledger").lock().await.unwrap();
    scene.fleet.servers[0].kill();
    scene.fleet.servers[3].stop();
    renewed(&guard, 2).await;
    scene.fleet.servers[3].resume();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_holder_without_a_majority_is_told_before_another_can_hold() {
    let scene = Scene::start(5, &[]);
    let (ours, other) = (
        scene.session("ttl=20s").await,
        scene.session("ttl=20s&patience=60s").await,
    );
    let guard = ours.mutex("ledger").lock().await.unwrap();
    let has_it = Arc::new(AtomicBool::new(false));
    let (mutex, seen) = (other.mutex("ledger"), has_it.clone());
    let waiting = tokio::spawn(async move {
        let guard = mutex.lock_within(LONG).await;
        seen.store(true, SeqCst);
        guard
    });
    scene.fleet.servers[..3].iter().for_each(|node| node.stop());
    assert_eq!(within("be told", guard.lost()).await, Lost::Deadline);
    assert!(!has_it.load(SeqCst), "both held it");
    scene.fleet.servers[..3]
        .iter()
        .for_each(|node| node.resume());
    let next = within("hold", waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
}

#[testbed::test]
async fn a_majority_that_forgets_frees_nothing() {
    let mut scene = Scene::start(5, &[]);
    let (ours, other) = (scene.session("ttl=2s").await, scene.session("ttl=2s").await);
    let guard = ours.mutex("ledger").lock().await.unwrap();
    scene.fleet.servers[..3]
        .iter_mut()
        .for_each(|node| node.restart());
    let mutex = other.mutex("ledger");
    let lost = async {
        loop {
            tokio::select! {
                lost = guard.lost() => return lost,
                guard = mutex.try_lock() => {
                    assert!(!matches!(guard, Ok(Some(_))), "two nodes granted it");
                }
            }
        }
    };
    assert_eq!(within("be told", lost).await, Lost::Deadline);
    // Also when what is left on the others has expired.
    let refused = async {
        loop {
            match mutex.try_lock().await {
                Ok(None) => tokio::time::sleep(Duration::from_millis(10)).await,
                Ok(Some(_)) => panic!("two nodes granted it"),
                Err(error) => return error,
            }
        }
    };
    let error = within("be refused", refused).await;
    assert!(error.to_string().contains("quarantine"), "{error}");
}

#[testbed::test]
async fn whoever_is_evicted_hears_of_it_at_once() {
    let scene = Scene::start(5, &[]);
    // Its next renewal is later than the test waits.
    let (ours, other) = (
        scene.session("ttl=300s").await,
        scene.session("ttl=300s").await,
    );
    let guard = ours.mutex("ledger").lock().await.unwrap();
    // One of them cannot tell.
    scene.fleet.servers[2].stop();
    let inspector = other.inspector();
    let evicted = within("evict", inspector.evict("ledger", "ann", "it hangs")).await;
    assert_eq!(evicted.unwrap(), 1);
    assert_eq!(within("be told", guard.lost()).await, Lost::Evicted);
    let next = other.mutex("ledger").lock_within(LONG).await.unwrap();
    assert!(next.token() > guard.token());
    let queue = inspector.queue("ledger").await.unwrap();
    assert_eq!(queue.evictions.len(), 1);
    assert_eq!(queue.evictions[0].token, guard.token());
    assert_eq!(queue.evictions[0].reason, "it hangs");
    scene.fleet.servers[2].resume();
}

#[testbed::test]
async fn a_node_that_hangs_does_not_hold_up_the_end() {
    let scene = Scene::start(5, &[]);
    for hanging in [1, 2] {
        let session = scene.session("ttl=60s").await;
        let guard = session.mutex("ledger").lock().await.unwrap();
        let nodes = &scene.fleet.servers[..hanging];
        nodes.iter().for_each(|node| node.stop());
        let asked = Instant::now();
        within("close", session.close()).await;
        assert!(
            asked.elapsed() < Duration::from_secs(5),
            "{:?}",
            asked.elapsed()
        );
        assert_eq!(guard.lost().await, Lost::Closed);
        nodes.iter().for_each(|node| node.resume());
        // What hung has it until its ttl is over, and nobody needs it.
        let next = scene.session("ttl=60s").await;
        let guard = free(&next.mutex("ledger")).await;
        guard.release().await.unwrap();
        scene.tell_all(&["DEL", "ledger"]);
    }
}

#[testbed::test]
async fn what_hung_is_cleaned_up_when_it_goes_on() {
    let scene = Scene::start(3, &[]);
    let session = scene.session("ttl=60s").await;
    scene.fleet.servers[1].stop();
    let guard = session.mutex("ledger").lock().await.unwrap();
    guard.release().await.unwrap();
    scene.fleet.servers[1].resume();
    until("be clean", || scene.count("ledger") == 0).await;
}

#[testbed::test]
async fn a_lock_that_was_given_back_is_free_though_any_one_node_hangs() {
    let scene = Scene::start(5, &[]);
    for options in ["ttl=60s", "ttl=60s&tokens=off"] {
        let session = scene.session(options).await;
        let mutex = session.mutex("ledger");
        // Whichever three granted it, the others have been told as well.
        for node in &scene.fleet.servers {
            let guard = within("lock", mutex.lock()).await.unwrap();
            guard.release().await.unwrap();
            node.stop();
            let guard = free(&mutex).await;
            node.resume();
            guard.release().await.unwrap();
        }
    }
}

#[testbed::test]
async fn a_session_goes_on_after_a_majority_hung_for_longer_than_its_ttl() {
    let scene = Scene::start(3, &[]);
    let session = scene.session("ttl=2s&patience=3s").await;
    let guard = session.mutex("ledger").lock().await.unwrap();
    let hanging = &scene.fleet.servers[..2];
    hanging.iter().for_each(|node| node.stop());
    assert_eq!(within("be told", guard.lost()).await, Lost::Deadline);
    // Connections are given up, and new ones are half made, when they go on.
    let error = session.mutex("other").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    hanging.iter().for_each(|node| node.resume());
    let again = async {
        loop {
            match session.mutex("ledger").lock().await {
                Ok(next) => return next,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    };
    let next = within("hold again", again).await;
    assert!(next.token() > guard.token());
    drop(next);
    within("close", session.close()).await;
}
