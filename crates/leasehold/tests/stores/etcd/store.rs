//! What people and the store itself do to leases and inboxes: revoke, delete, compact.

use leasehold::Lost;

use super::{Etcd, ONE, cluster, inspector, lock, lost, queue_of, session, wait_for_lock};

fn keys(etcd: &Etcd, prefix: &str) -> Vec<String> {
    let text = etcd.ctl(&["get", prefix, "--prefix", "--keys-only"]);
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Without a claim there is no inbox: the keep-alive says it.
#[testbed::test]
async fn a_session_whose_lease_was_revoked_before_its_first_claim_gets_a_new_one() {
    let (_folder, etcd) = cluster(1);
    let one = session(&etcd.url(), "ttl=1h").await;
    let leases = etcd.ctl(&["lease", "list"]);
    etcd.ctl(&["lease", "revoke", leases.lines().last().unwrap()]);
    let guard = lock(&one, "ledger").await;
    let key = keys(&etcd, "ledger/").remove(0);
    assert!(!leases.contains(key.rsplit('/').next().unwrap()));
    guard.release().await.unwrap();
}

#[testbed::test]
async fn an_inbox_that_was_deleted_by_hand_costs_the_lease_and_nothing_else() {
    let etcd = ONE.take();
    let one = session(&etcd.url(), "ttl=1h").await;
    let guard = lock(&one, "ledger").await;
    etcd.ctl(&["del", "leasehold/inbox/", "--prefix"]);
    assert_eq!(lost(&guard).await, Lost::Gone);
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_wait_survives_a_compaction_and_a_restart_in_one() {
    let (_folder, mut etcd) = cluster(1);
    let (one, other) = (
        session(&etcd.url(), "ttl=30s").await,
        session(&etcd.url(), "ttl=30s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&etcd.url()).await, "ledger", 2).await;
    // What the waiter's watch starts at is forgotten before it is opened anew.
    for number in 0..20 {
        etcd.ctl(&["put", "unrelated", &number.to_string()]);
    }
    let text = etcd.ctl(&["get", "unrelated", "--write-out=json"]);
    let (_, rest) = text.split_once("\"revision\":").unwrap();
    etcd.ctl(&["compact", rest.split(',').next().unwrap()]);
    etcd.members[0].restart();
    guard.release().await.unwrap();
    let next = tokio::time::timeout(crate::LONG, waiting).await;
    next.unwrap().unwrap().release().await.unwrap();
}
