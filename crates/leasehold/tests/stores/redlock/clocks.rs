//! Nodes whose wall clocks are moved. No lock over time survives that, but the
//! tokens do.

use leasehold::Lost;
use leasehold::fence::Fence;

use crate::redlock::scene::{LONG, until, within};
use crate::steps::try_lock;
use testbed::redis::{Fleet, RedisServer};

const HOUR: i64 = 60 * 60 * 1000;

/// A resource that takes no write of a holder who was overtaken.
#[derive(Default)]
struct Resource {
    highest: Option<Fence>,
}

impl Resource {
    fn write(&mut self, fence: Fence) -> bool {
        let is_fresh = self.highest.is_none_or(|highest| fence >= highest);
        if is_fresh {
            self.highest = Some(fence);
        }
        is_fresh
    }
}

fn fleet() -> (tempfile::TempDir, Fleet) {
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet::start_with_clocks(folder.path(), 5);
    (folder, fleet)
}

#[testbed::test]
async fn clocks_that_jump_ahead_make_two_believers_and_no_stale_write() {
    let (_folder, fleet) = fleet();
    // The first session renews after a third of it, which is long enough to see
    // that both believe.
    let url = format!("{}?ttl=30s", fleet.url());
    let ours = leasehold::connect(&url).await.unwrap();
    let theirs = leasehold::connect(&url).await.unwrap();
    let first = ours.mutex("ledger").lock().await.unwrap();
    let mut resource = Resource::default();
    assert!(resource.write(first.fence()));
    // A minority changes nothing.
    fleet.servers[0].set_ahead(HOUR);
    fleet.servers[1].set_ahead(HOUR);
    for _ in 0..3 {
        let guard = try_lock(&theirs, "ledger").await;
        assert!(guard.is_none(), "three of five nodes have it");
    }
    fleet.servers[2].set_ahead(HOUR);
    let second = theirs.mutex("ledger").lock_within(LONG).await.unwrap();
    first.check().expect("nobody told it yet");
    second.check().unwrap();
    assert!(second.token() > first.token());
    assert!(resource.write(second.fence()));
    assert!(!resource.write(first.fence()), "a stale write");
    assert!(resource.write(second.fence()));
    assert_eq!(within("be told", first.lost()).await, Lost::Gone);
    second.check().unwrap();
    second.release().await.unwrap();
}

#[testbed::test]
async fn clocks_that_are_set_back_keep_a_lock_longer_and_grant_nothing_twice() {
    let (_folder, fleet) = fleet();
    const TTL: i64 = 20_000;
    let url = format!("{}?ttl=20s", fleet.url());
    let ours = leasehold::connect(&url).await.unwrap();
    let theirs = leasehold::connect(&url).await.unwrap();
    let first = ours.mutex("ledger").lock().await.unwrap();
    let token = first.token();
    fleet.servers[..3]
        .iter()
        .for_each(|node| node.set_ahead(-HOUR));
    let left = |node: usize| -> i64 { fleet.servers[node].tell("PTTL ledger").parse().unwrap() };
    assert!(left(0) > HOUR - TTL && left(1) > HOUR - TTL && left(2) > HOUR - TTL);
    assert!(try_lock(&theirs, "ledger").await.is_none());
    // The next renewal puts it right.
    until("be renewed by the clocks as they are", || {
        (0..3).all(|node| left(node) <= TTL)
    })
    .await;
    assert!(try_lock(&theirs, "ledger").await.is_none());
    first.check().unwrap();
    first.release().await.unwrap();
    let is_free = |node: &RedisServer| node.tell("EXISTS ledger") == "0";
    until("be free", || fleet.servers.iter().all(is_free)).await;
    // Whoever does not renew has it for as long as the clocks say.
    let millis = ["SET", "ledger", "theirs", "NX", "PX", "500"];
    fleet
        .servers
        .iter()
        .for_each(|node| drop(node.command(&millis)));
    fleet.servers[..3]
        .iter()
        .for_each(|node| node.set_ahead(-2 * HOUR));
    until("expire where no clock was moved", || {
        left(3) < 0 && left(4) < 0
    })
    .await;
    assert!(try_lock(&theirs, "ledger").await.is_none());
    fleet.servers[0].set_ahead(0);
    let second = theirs.mutex("ledger").lock_within(LONG).await.unwrap();
    assert!(second.token() > token);
}
