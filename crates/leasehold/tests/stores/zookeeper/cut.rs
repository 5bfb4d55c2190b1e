//! The network between us and the servers.

use std::time::{Duration, Instant};

use leasehold::Lost;

use super::way::Way;
use super::{ensemble, inspector, lock, lost, queue_of, session, wait_for_lock};

fn url(ways: &[Way]) -> String {
    let places: Vec<_> = ways
        .iter()
        .map(|way| format!("127.0.0.1:{}", way.port))
        .collect();
    format!("zk://{}", places.join(","))
}

#[testbed::test]
async fn a_hold_survives_while_any_server_can_be_reached() {
    let (_folder, zookeeper) = ensemble(3);
    let ways: Vec<_> = zookeeper.servers.iter().map(|s| Way::to(s.port)).collect();
    let (one, other) = (
        session(&url(&ways), "ttl=6s").await,
        session(&url(&ways), "ttl=6s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    let inspector = inspector(&zookeeper.url()).await;
    queue_of(&inspector, "ledger", 2).await;
    // One way after the other is the only one that is open.
    for open in [0, 1, 2, 0] {
        ways[open].mend();
        for (number, way) in ways.iter().enumerate() {
            if number != open {
                way.cut();
            }
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            guard.check().unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert!(!waiting.is_finished());
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().token() > token);
}

#[testbed::test]
async fn whoever_is_cut_off_from_all_knows_before_another_gets_in() {
    let (_folder, zookeeper) = ensemble(3);
    let ways: Vec<_> = zookeeper.servers.iter().map(|s| Way::to(s.port)).collect();
    let (one, other) = (
        session(&url(&ways), "ttl=3s").await,
        session(&zookeeper.url(), "ttl=3s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&zookeeper.url()).await, "ledger", 2).await;
    ways.iter().for_each(Way::cut);
    assert_eq!(lost(&guard).await, Lost::Deadline);
    assert!(!waiting.is_finished(), "the servers keep it for longer");
    assert!(waiting.await.unwrap().token() > guard.token());
    ways.iter().for_each(Way::mend);
    let again = lock(&one, "another").await;
    again.release().await.unwrap();
}

/// The next server in the list is silent: it must not use up the time that the
/// one behind it needs.
#[testbed::test(timed)]
async fn a_hold_survives_when_the_next_server_is_silent() {
    let (_folder, zookeeper) = ensemble(3);
    let follower = zookeeper.follower();
    // Wherever it is, the silent one is next; with the others cut it must wait
    // for both of them to be tried.
    let ways: Vec<_> = (0..3)
        .map(|number| Way::to(zookeeper.servers[(follower + number) % 3].port))
        .collect();
    let one = session(&url(&ways), "ttl=5s").await;
    let guard = lock(&one, "ledger").await;
    zookeeper.servers[follower].stop();
    for open in [1, 2, 1, 2] {
        ways[open].mend();
        ways[3 - open].cut();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(4) {
            guard.check().unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    zookeeper.servers[follower].resume();
}
