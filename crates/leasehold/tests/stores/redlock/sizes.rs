//! Other numbers of nodes than five. Two majorities always share a node.

use leasehold::ErrorKind;

use crate::redlock::scene::{Scene, free, until};

/// Kills nodes one after the other: all are needed but these.
async fn can_do_without(spare: usize, count: usize, options: &str) {
    let mut scene = Scene::start(count, &[]);
    let session = scene.session(options).await;
    for down in 0..=spare {
        let guard = free(&session.mutex("ledger")).await;
        guard.release().await.unwrap();
        // A majority says that it is free; the others hear of it soon.
        until("be free everywhere", || {
            scene.count_from(down, "ledger") == 0
        })
        .await;
        scene.fleet.servers[down].kill();
    }
    let error = session.mutex("ledger").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let needed = format!("{} of {count} nodes are needed", count - spare);
    assert!(error.to_string().contains(&needed), "{error}");
}

#[testbed::test]
async fn three_nodes_can_do_without_one() {
    can_do_without(1, 3, "ttl=60s").await;
}

#[testbed::test]
async fn four_nodes_can_do_without_one_and_not_without_two() {
    can_do_without(1, 4, "ttl=60s").await;
    can_do_without(1, 4, "ttl=60s&tokens=off").await;
}

#[testbed::test]
async fn fewer_than_three_can_do_without_none() {
    can_do_without(0, 2, "ttl=60s&i_know_this_is_not_ha").await;
    can_do_without(0, 1, "ttl=60s&i_know_this_is_not_ha").await;
}
