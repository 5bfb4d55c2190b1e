//! A barrier with many members: what their looks cost the server.

use leasehold::Name;
use leasehold::conformance::Bench;

use super::{ONE, session};

const MEMBERS: u32 = 50;
const LOOKS: u64 = 20;

#[testbed::test]
async fn whoever_looks_again_reads_only_those_who_came_since() {
    let zookeeper = ONE.take();
    let one = session(&zookeeper.url(), "ttl=30s").await;
    let permits = one.semaphore("load/test", MEMBERS + 1);
    let mut members = Vec::new();
    for _ in 0..MEMBERS {
        members.push(permits.acquire().await.unwrap());
    }
    let engine = Bench::new(&zookeeper.url()).await.unwrap().engine().await;
    let name = Name::new("load/test").unwrap();
    let told = async || {
        let mut told = engine.holders(&name).await.unwrap();
        told.sort_unstable();
        told
    };
    let of = |members: &[leasehold::Guard]| {
        let mut ids: Vec<_> = members.iter().map(|one| one.fence().holder).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(told().await, of(&members));
    let before = zookeeper.servers[0].received();
    for _ in 0..LOOKS {
        assert_eq!(told().await, of(&members));
    }
    // Two requests each; what keeps the sessions comes on top.
    let received = zookeeper.servers[0].received() - before;
    assert!(received < LOOKS * u64::from(MEMBERS), "{received}");
    members.remove(7).release().await.unwrap();
    members.push(permits.acquire().await.unwrap());
    assert_eq!(told().await, of(&members));
}
