//! A node's address that leads to another node later on.

use leasehold::{ErrorKind, Lost};

use crate::redlock::scene::{Scene, within};
use testbed::proxy::Proxy;

#[testbed::test]
async fn a_server_that_takes_the_place_of_a_node_votes_once() {
    let mut scene = Scene::start(3, &[]);
    let session = scene.session("ttl=2s&patience=10s").await;
    let guard = session.mutex("ledger").lock().await.unwrap();
    // The third node's address leads to the first from here on.
    let [first, third] = [0, 2].map(|node| scene.fleet.servers[node].port());
    scene.fleet.servers[2].kill();
    let _detour = Proxy::start_on(third, first).await;
    let is_found_out = async {
        loop {
            let stati = leasehold::redlock::status(&scene.url("")).await;
            if stati.is_err_and(|error| error.to_string().contains("the same server")) {
                return;
            }
        }
    };
    within("be found out", is_found_out).await;
    // Two of three are left; the third name does no harm.
    let other = session.mutex("other").lock().await.unwrap();
    other.release().await.unwrap();
    scene.fleet.servers[1].kill();
    let error = session.mutex("other").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        error.to_string().contains("is the same server as"),
        "{error}"
    );
    // One server alone does not keep it either.
    assert_eq!(within("be told", guard.lost()).await, Lost::Deadline);
}
