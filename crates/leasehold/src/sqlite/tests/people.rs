//! What people see, and what they may break.

use super::*;
use crate::engine::{Inspect, Renewal, Severity};
use crate::guard::Lost;

#[tokio::test]
async fn an_evicted_holder_is_told_by_listen_and_renew_and_the_next_holds() {
    let bench = Bench::new();
    let (holder, next) = (bench.party().await, bench.party().await);
    let (held, waiting) = (holder.ticket("a"), next.ticket("a"));
    let first = holder.lock(&held).await.unwrap();
    next.lock(&waiting).await;
    let cause = Cause::Evicted {
        by: "ops",
        reason: "it hangs",
    };
    let removed = next.engine.withdraw(&held.claim, cause).await.unwrap();
    assert_eq!(removed, Withdrawn::Removed);

    let listening = holder.engine.listen(&holder.lease);
    tokio::time::timeout(DEADLINE, listening)
        .await
        .expect("it is told");
    let Renewal::Renewed { gone } = holder.engine.renew(&holder.lease).await.unwrap() else {
        panic!("only one claim is gone, not the lease");
    };
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0].id, held.claim.id);
    assert_eq!(gone[0].lost, Lost::Evicted);
    assert_eq!(gone[0].note.as_deref(), Some("by ops: it hangs"));
    let again = holder.engine.renew(&holder.lease).await.unwrap();
    assert_eq!(again, Renewal::Renewed { gone: Vec::new() });

    assert!(token(next.wait(&waiting).await) > first);
    let queue = next.engine.queue(&held.claim.name).await.unwrap();
    assert_eq!(queue.evictions.len(), 1);
    assert_eq!(queue.evictions[0].token, first);
    assert_eq!(queue.evictions[0].by, "ops");
}

#[tokio::test]
async fn a_waiter_that_is_evicted_stops_waiting() {
    let bench = Bench::new();
    let (holder, waiter) = (bench.party().await, bench.party().await);
    holder.lock(&holder.ticket("a")).await.unwrap();
    let waiting = waiter.ticket("a");
    waiter.lock(&waiting).await;
    let cause = Cause::Evicted {
        by: "ops",
        reason: "",
    };
    holder.engine.withdraw(&waiting.claim, cause).await.unwrap();
    assert_eq!(waiter.wait(&waiting).await, Standing::Gone);
}

#[tokio::test]
async fn a_queue_shows_who_holds_and_who_waits() {
    let bench = Bench::new();
    let (holder, waiter) = (bench.party().await, bench.party().await);
    let (held, mut waiting) = (holder.ticket("it's 100% 🔒"), waiter.ticket("it's 100% 🔒"));
    waiting.label = Some("backup".into());
    let token = holder.lock(&held).await.unwrap();
    waiter.lock(&waiting).await;
    let queue = waiter.engine.queue(&held.claim.name).await.unwrap();
    let [first, second] = &queue.claims[..] else {
        panic!("{queue:?}")
    };
    assert!(first.is_holder && !second.is_holder);
    assert_eq!((first.token, second.token), (Some(token), None));
    assert_eq!(
        (first.owner.label(), second.owner.label()),
        ("test", "backup")
    );
    assert_eq!(first.holder, held.holder);
    assert!(first.time_left > Duration::from_secs(1) && first.time_left <= TTL);
    drop(holder);
    let queue = waiter.engine.queue(&held.claim.name).await.unwrap();
    assert_eq!(queue.holders().count(), 1, "the dead are not shown");
}

#[tokio::test]
async fn names_are_listed_by_prefix_in_order() {
    let bench = Bench::new();
    let party = bench.party().await;
    for name in ["b", "jobs/2", "jobs/1", "jobs", "job%"] {
        party.lock(&party.ticket(name)).await.unwrap();
    }
    let names = |prefix: &'static str| {
        let engine = &party.engine;
        async move {
            let names = engine.names(prefix).await.unwrap();
            names.iter().map(ToString::to_string).collect::<Vec<_>>()
        }
    };
    assert_eq!(names("jobs").await, ["jobs", "jobs/1", "jobs/2"]);
    assert_eq!(names("").await.len(), 5);
    assert_eq!(names("x").await.len(), 0);
}

#[tokio::test]
async fn a_fresh_store_is_fit_and_a_world_writable_one_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let party = bench.party().await;
    let worst = |findings: Vec<crate::engine::Finding>| {
        findings
            .into_iter()
            .max_by_key(|finding| finding.severity)
            .unwrap()
    };
    let findings = party.engine.examine().await.unwrap();
    assert_eq!(worst(findings).severity, Severity::Fine);
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(bench.path(), open).unwrap();
    let finding = worst(party.engine.examine().await.unwrap());
    assert_eq!(finding.severity, Severity::Unfit);
    assert!(finding.remedy.contains("chmod o-w"), "{finding:?}");
}
