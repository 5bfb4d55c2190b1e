//! Any request may be delivered twice or its reply lost: one claim, counted
//! once, one release.

use std::time::Duration;

use super::bench::{Bench, soon, until};
use super::wire::{Call, Fault, Wire};
use super::{Case, nothing};
use crate::engine::{Cause, ClaimRef, LeaseId, Owner, Standing, Ticket, TicketId, Withdrawn};
use crate::name::Name;
use crate::random::{random_u64, random_u128};
use crate::session::Session;

const TTL: Duration = Duration::from_secs(10);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[7], nothing, asking_twice_with_one_ticket_is_asking_once),
        Case::new(&[5, 7], nothing, withdrawing_twice_touches_nobody_else),
        Case::new(&[7], nothing, every_request_may_be_delivered_twice),
        Case::new(&[7], nothing, a_lost_reply_to_a_lock_leaves_one_claim),
        Case::new(&[7], nothing, a_lost_reply_to_a_release_is_a_release),
        Case::new(
            &[7],
            nothing,
            a_wait_that_is_given_up_in_doubt_leaves_nothing,
        ),
        Case::new(&[6, 7], nothing, an_ended_lease_cannot_be_renewed_or_used),
    ]
}

fn ticket(name: &str, lease: LeaseId, waits: bool) -> Ticket {
    Ticket {
        claim: ClaimRef {
            name: Name::new(name).unwrap(),
            id: TicketId(random_u128()),
        },
        lease,
        holder: random_u64(),
        capacity: 1,
        weight: 1,
        waits,
        label: None,
    }
}

async fn asking_twice_with_one_ticket_is_asking_once(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let lease = engine.open(&Owner::new("twice"), TTL).await.unwrap();
    let (first, second) = (ticket(&name, lease.id, true), ticket(&name, lease.id, true));
    let granted = engine.enqueue(&first).await.unwrap();
    assert!(matches!(granted, Standing::Held { .. }), "{granted:?}");
    assert_eq!(engine.enqueue(&first).await.unwrap(), granted);
    for _ in 0..2 {
        let standing = engine.enqueue(&second).await.unwrap();
        assert!(matches!(standing, Standing::Waiting { .. }), "{standing:?}");
    }
    assert_eq!(bench.queue(&name).await.claims.len(), bench.shown(2));
    engine.close(&lease).await.unwrap();
    engine.close(&lease).await.unwrap();
    assert!(bench.queue(&name).await.claims.is_empty());
}

async fn withdrawing_twice_touches_nobody_else(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let lease = engine.open(&Owner::new("twice"), TTL).await.unwrap();
    let (first, second) = (ticket(&name, lease.id, true), ticket(&name, lease.id, true));
    engine.enqueue(&first).await.unwrap();
    engine.enqueue(&second).await.unwrap();
    let withdraw = || engine.withdraw(&first.claim, Cause::Ours);
    assert_eq!(withdraw().await.unwrap(), Withdrawn::Removed);
    assert_eq!(withdraw().await.unwrap(), Withdrawn::Absent);
    let standing = engine.enqueue(&second).await.unwrap();
    assert!(matches!(standing, Standing::Held { .. }), "{standing:?}");
    engine.close(&lease).await.unwrap();
}

async fn every_request_may_be_delivered_twice(bench: Bench) {
    let wire = Wire::new(bench.engine().await);
    wire.cut(
        [
            Call::Renew,
            Call::Enqueue,
            Call::Wait,
            Call::Withdraw,
            Call::Close,
        ],
        Fault::Repeated,
    );
    let session = Session::with_engine(wire, TTL).await.unwrap();
    let (other, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    assert_eq!(bench.queue(&name).await.claims.len(), 1);
    drop(guard);
    let guard = soon("it is free", other.mutex(&name).lock()).await.unwrap();
    let mutex = session.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    bench.queue_of(&name, 2).await;
    guard.release().await.unwrap();
    soon("it is the other's turn", waiting)
        .await
        .unwrap()
        .unwrap();
    session.close().await;
    assert!(bench.queue(&name).await.claims.is_empty());
}

async fn a_lost_reply_to_a_lock_leaves_one_claim(bench: Bench) {
    let (wire, session) = bench.wired(TTL).await;
    let name = bench.name();
    wire.cut([Call::Enqueue], Fault::LosesReply);
    let mutex = session.mutex(&name);
    let locking = tokio::spawn(async move { mutex.lock().await });
    until("it has asked again", || async {
        wire.sent(Call::Enqueue) > 2
    })
    .await;
    assert_eq!(bench.queue(&name).await.claims.len(), 1);
    wire.mend();
    let guard = soon("the answer comes", locking).await.unwrap().unwrap();
    assert_eq!(bench.queue(&name).await.claims.len(), 1);
    guard.release().await.unwrap();
    bench.queue_of(&name, 0).await;
}

async fn a_lost_reply_to_a_release_is_a_release(bench: Bench) {
    let (wire, session) = bench.wired(TTL).await;
    let name = bench.name();
    let guard = session.mutex(&name).lock().await.unwrap();
    wire.cut([Call::Withdraw], Fault::LosesReply);
    let releasing = tokio::spawn(guard.release());
    bench.queue_of(&name, 0).await;
    wire.mend();
    soon("the answer comes", releasing).await.unwrap().unwrap();
}

async fn a_wait_that_is_given_up_in_doubt_leaves_nothing(bench: Bench) {
    let (wire, session) = bench.wired(TTL).await;
    let name = bench.name();
    wire.cut([Call::Enqueue], Fault::LosesReply);
    let waited = session
        .mutex(&name)
        .lock_within(Duration::from_millis(100))
        .await;
    waited.unwrap_err();
    bench.queue_of(&name, 0).await;
}

async fn an_ended_lease_cannot_be_renewed_or_used(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let lease = engine.open(&Owner::new("ended"), TTL).await.unwrap();
    let held = ticket(&name, lease.id, true);
    engine.enqueue(&held).await.unwrap();
    engine.close(&lease).await.unwrap();
    let renewal = engine.renew(&lease).await.unwrap();
    assert_eq!(renewal, crate::engine::Renewal::LeaseGone);
    assert_eq!(engine.enqueue(&held).await.unwrap(), Standing::Gone);
    let another = ticket(&name, lease.id, false);
    assert_eq!(engine.enqueue(&another).await.unwrap(), Standing::Gone);
    assert!(bench.queue(&name).await.claims.is_empty());
}
