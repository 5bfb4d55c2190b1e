//! What people and the store itself do to claims: revoke, delete, compact.

use leasehold::Lost;

use super::{Etcd, LONG, cluster, inspector, lock, lost, queue_of, session, wait_for_lock};
use testbed::wait_for;

fn keys(etcd: &Etcd, prefix: &str) -> Vec<String> {
    let text = etcd.ctl(&["get", prefix, "--prefix", "--keys-only"]);
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Ends the lease that a claim's key is on.
fn revoke(etcd: &Etcd, key: &str) {
    let lease = key.rsplit('/').next().unwrap();
    etcd.ctl(&["lease", "revoke", lease]);
}

#[testbed::test]
async fn a_lease_that_was_revoked_by_hand_is_lost() {
    let (_folder, etcd) = cluster(1);
    // The next renewal is twenty minutes away: the store tells.
    let one = session(&etcd.url(), "ttl=1h").await;
    let guard = lock(&one, "ledger").await;
    revoke(&etcd, &keys(&etcd, "ledger/")[0]);
    assert_eq!(lost(&guard).await, Lost::Gone);
    // The session has a new lease.
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
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
async fn a_waiter_whose_lease_was_revoked_queues_again_on_a_new_one() {
    let (_folder, etcd) = cluster(1);
    let (one, other) = (
        session(&etcd.url(), "ttl=1h").await,
        session(&etcd.url(), "ttl=1h").await,
    );
    let guard = lock(&one, "ledger").await;
    let holder = keys(&etcd, "ledger/").remove(0);
    let waiting = wait_for_lock(&other, "ledger");
    let inspector = inspector(&etcd.url()).await;
    queue_of(&inspector, "ledger", 2).await;
    let waiter = |keys: Vec<String>| keys.into_iter().find(|key| *key != holder);
    let before = waiter(keys(&etcd, "ledger/")).unwrap();
    revoke(&etcd, &before);
    wait_for("another place in the queue", || {
        waiter(keys(&etcd, "ledger/")).filter(|key| *key != before)
    });
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}

#[testbed::test]
async fn an_inbox_that_was_deleted_by_hand_costs_the_lease_and_nothing_else() {
    let (_folder, etcd) = cluster(1);
    let one = session(&etcd.url(), "ttl=1h").await;
    let guard = lock(&one, "ledger").await;
    etcd.ctl(&["del", "leasehold/inbox/", "--prefix"]);
    assert_eq!(lost(&guard).await, Lost::Gone);
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_claim_that_was_deleted_by_hand_is_lost() {
    let (_folder, etcd) = cluster(1);
    let one = session(&etcd.url(), "ttl=6s").await;
    let guard = lock(&one, "ledger").await;
    etcd.ctl(&["del", &keys(&etcd, "ledger/")[0]]);
    assert_eq!(lost(&guard).await, Lost::Gone);
}

#[testbed::test]
async fn a_waiting_claim_that_was_deleted_by_hand_queues_again() {
    let (_folder, etcd) = cluster(1);
    let (one, other) = (
        session(&etcd.url(), "ttl=30s").await,
        session(&etcd.url(), "ttl=30s").await,
    );
    let guard = lock(&one, "ledger").await;
    let holder = keys(&etcd, "ledger/").remove(0);
    let waiting = wait_for_lock(&other, "ledger");
    let inspector = inspector(&etcd.url()).await;
    queue_of(&inspector, "ledger", 2).await;
    let revision = || {
        let waiter = keys(&etcd, "ledger/")
            .into_iter()
            .find(|key| *key != holder)?;
        let shown = etcd.ctl(&["get", &waiter, "--write-out=json"]);
        let (_, rest) = shown.split_once("\"create_revision\":")?;
        Some((waiter, rest.split(',').next()?.to_owned()))
    };
    let first = revision().unwrap();
    etcd.ctl(&["del", &first.0]);
    wait_for("another claim", || revision().filter(|now| *now != first));
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
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
    let next = tokio::time::timeout(LONG, waiting).await;
    next.unwrap().unwrap().release().await.unwrap();
}
