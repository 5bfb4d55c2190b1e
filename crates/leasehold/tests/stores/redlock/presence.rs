//! Nodes that are not waited for have the lock all the same.

use std::time::Duration;

use crate::redlock::scene::{Scene, until, within};

#[testbed::test]
async fn a_lock_is_on_every_node_that_is_there() {
    let scene = Scene::start(5, &[]);
    let session = scene.session("ttl=60s").await;
    // From the first grant on, though three would do.
    let guard = session.mutex("ledger").lock().await.unwrap();
    until("be on all nodes", || scene.count("ledger") == 5).await;
    guard.release().await.unwrap();
    // A node that lost its scripts takes part again, without being waited for.
    scene.fleet.servers[4].command(&["SCRIPT", "FLUSH"]);
    let on_all = async {
        loop {
            let guard = session.mutex("ledger").lock().await.unwrap();
            let is_there = scene.value(4, "ledger").is_some();
            guard.release().await.unwrap();
            if is_there {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("take part again", on_all).await;
}
