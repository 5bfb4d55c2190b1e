//! Memos that are kept for a time: the leases that they cost.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::Name;
use leasehold::conformance::Bench;
use leasehold::engine::{Cause, ClaimRef, Memo, Noted, Owner, Standing, Ticket, TicketId};

use super::{ONE, lock, session};

const HOUR: Duration = Duration::from_secs(3600);

#[testbed::test]
async fn those_who_write_at_the_same_time_share_a_lease() {
    let etcd = ONE.take();
    let one = session(&etcd.url(), "ttl=20s").await;
    let mut guards = Vec::new();
    for number in 0..20 {
        guards.push(lock(&one, &format!("job {number}")).await);
    }
    let before = etcd.members[0].calls("LeaseGrant");
    let written = guards.iter().map(|guard| guard.write_memo_for("x", HOUR));
    for written in join_all(written).await {
        written.unwrap();
    }
    assert_eq!(etcd.members[0].calls("LeaseGrant") - before, 1);
}

#[testbed::test]
async fn a_lease_for_a_write_that_was_refused_is_given_back() {
    let etcd = ONE.take();
    let bench = Bench::new(&etcd.url()).await.unwrap();
    let (engine, other) = (bench.engine().await, bench.engine().await);
    let owner = Owner::seen("here", 1, "");
    let lease = engine.open(&owner, Duration::from_secs(30)).await.unwrap();
    let ticket = Ticket {
        claim: ClaimRef {
            name: Name::new("job").unwrap(),
            id: TicketId(7),
        },
        lease: lease.id,
        holder: 1,
        capacity: 1,
        weight: 1,
        waits: true,
        label: None,
    };
    let Standing::Held { token } = engine.enqueue(&ticket).await.unwrap() else {
        panic!("it is free");
    };
    let broken = Cause::Evicted {
        by: "somebody",
        reason: "",
    };
    other.withdraw(&ticket.claim, broken).await.unwrap();
    let before = etcd.members[0].calls("LeaseRevoke");
    let memo = Memo {
        token,
        edition: 1,
        bytes: b"x".to_vec(),
    };
    let noted = engine.write_memo_for(&ticket.claim, &memo, HOUR).await;
    assert_eq!(noted.unwrap(), Noted::NotHeld);
    assert_eq!(etcd.members[0].calls("LeaseRevoke") - before, 1);
}
