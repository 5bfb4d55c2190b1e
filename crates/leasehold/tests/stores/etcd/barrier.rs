//! A barrier with many members: what their looks cost the cluster.

use super::{ONE, session};
use crate::LONG;

const MEMBERS: u32 = 50;

#[testbed::test]
async fn fifty_members_meet_and_nobody_asks_for_their_leases() {
    let etcd = ONE.take();
    let calls = |method| etcd.members[0].calls(method);
    let before = ["LeaseTimeToLive", "Txn"].map(calls);
    let mut members = Vec::new();
    for _ in 0..MEMBERS {
        let one = session(&etcd.url(), "ttl=60s").await;
        members.push(tokio::spawn(async move {
            let barrier = one.barrier("load/test", MEMBERS);
            let entered = barrier.enter_within(LONG * 4).await.unwrap();
            entered.leave().await.unwrap();
            one.close().await;
        }));
    }
    for member in members {
        tokio::time::timeout(LONG * 8, member)
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(calls("LeaseTimeToLive"), before[0]);
    assert!(calls("Txn") > before[1] + u64::from(MEMBERS));
}
