//! Servers that are silent, and one that answers without a leader.

use std::time::{Duration, Instant};

use leasehold::Lost;

use super::{Client, Zookeeper, ensemble, lock, lost, only_child, session};
use crate::ensemble::{Cable, Cut, Ensemble as _};

/// A follower answers reads and pings for seconds after it has lost its leader.
/// None of that keeps a session.
#[testbed::test(timed)]
async fn what_a_follower_says_without_its_leader_renews_nothing() {
    const TTL: Duration = Duration::from_secs(5);
    let folder = tempfile::tempdir().unwrap();
    // It misses its leader after twelve seconds.
    let zookeeper = Zookeeper::start_with(folder.path(), 3, "syncLimit=60", &[]);
    let (leader, follower) = (zookeeper.leader(), zookeeper.follower());
    let one = zookeeper.session_on(follower, "ttl=5s").await;
    let guard = lock(&one, "ledger").await;
    let port = zookeeper.servers[follower].port;
    let mut client = Client::connect(port).unwrap();
    let node = only_child(&mut client, "/ledger");
    let began = Instant::now();
    zookeeper.servers[leader].stop();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    let told = began.elapsed();
    assert!(told < TTL, "{told:?}");
    // The follower still answers, and still shows the node: its word is not
    // what we go by.
    client.stat(&node).unwrap();
    zookeeper.servers[leader].resume();
}

/// The next server in the list is silent: it must not use up the time that the
/// one behind it needs.
#[testbed::test(timed)]
async fn a_hold_survives_when_the_next_server_is_silent() {
    let (_folder, zookeeper) = ensemble(3);
    let follower = zookeeper.follower();
    // Wherever it is, the silent one is next; with the others cut it must wait
    // for both of them to be tried.
    let cables: Vec<_> = (0..3)
        .map(|number| Cable::to(zookeeper.servers[(follower + number) % 3].port))
        .collect();
    let url = Zookeeper::url_of(cables.iter().map(|cable| cable.port));
    let one = session(&url, "ttl=5s").await;
    let guard = lock(&one, "ledger").await;
    zookeeper.servers[follower].stop();
    for open in [1, 2, 1, 2] {
        cables[open].mend();
        cables[3 - open].cut(Cut::Torn);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(4) {
            guard.check().unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    zookeeper.servers[follower].resume();
}
