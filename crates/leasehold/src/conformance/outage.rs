//! A store that is deaf, hangs or refuses for a while.

use std::time::{Duration, Instant};

use super::bench::{Bench, soon, until};
use super::wire::{Call, Fault, Wire};
use super::{Case, fair, nothing};
use crate::error::ErrorKind;
use crate::session::Session;

/// Longer than a case may take: nothing here waits for a lease to run out.
const LONG: Duration = Duration::from_secs(60);
/// Long enough for an outage and for a loaded machine.
const TTL: Duration = Duration::from_secs(12);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[12], nothing, a_lost_wake_up_does_not_cost_a_ttl),
        Case::new(
            &[14],
            nothing,
            a_hold_survives_a_store_that_refuses_for_a_while,
        ),
        Case::new(
            &[14],
            fair,
            a_waiter_keeps_its_place_while_the_store_refuses,
        ),
        Case::new(
            &[14],
            nothing,
            a_session_takes_locks_again_after_it_lost_its_lease,
        ),
        Case::new(&[15], nothing, a_wait_ends_at_its_deadline),
        Case::new(
            &[15],
            nothing,
            a_wait_ends_at_its_deadline_while_the_store_hangs,
        ),
        Case::new(
            &[13, 15],
            nothing,
            closing_comes_to_an_end_while_the_store_hangs,
        ),
    ]
}

/// The session never hears what the store tells it.
async fn a_lost_wake_up_does_not_cost_a_ttl(bench: Bench) {
    let wire = Wire::new(bench.engine().await);
    wire.cut([Call::Listen], Fault::Hangs);
    let deaf = Session::with_engine(wire, LONG).await.unwrap();
    let (session, name) = (bench.session(LONG).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    let mutex = deaf.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    bench.queue_of(&name, 2).await;
    let released = Instant::now();
    guard.release().await.unwrap();
    soon("it looks by itself", waiting).await.unwrap().unwrap();
    // A second is promised; the rest is for a loaded machine.
    assert!(released.elapsed() < LONG / 6, "{:?}", released.elapsed());
}

async fn a_hold_survives_a_store_that_refuses_for_a_while(bench: Bench) {
    let (wire, session) = bench.wired(TTL).await;
    let guard = session.mutex(bench.name()).lock().await.unwrap();
    wire.cut(Call::ALL, Fault::Refused);
    let before = wire.sent(Call::Renew);
    until("it goes on asking", || async {
        wire.sent(Call::Renew) > before + 1
    })
    .await;
    // It grows by a renewal only.
    let left = guard.valid_for();
    wire.mend();
    until("the store answers again", || async {
        guard.check().unwrap();
        guard.valid_for() > left
    })
    .await;
    guard.check().unwrap();
    guard.release().await.unwrap();
}

async fn a_waiter_keeps_its_place_while_the_store_refuses(bench: Bench) {
    let (wire, session) = bench.wired(LONG).await;
    let (holder, behind, name) = (
        bench.session(LONG).await,
        bench.session(LONG).await,
        bench.name(),
    );
    let guard = holder.mutex(&name).lock().await.unwrap();
    let mutex = session.mutex(&name);
    let first = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    let mutex = behind.mutex(&name);
    let second = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 3).await;
    wire.cut([Call::Enqueue, Call::Wait], Fault::Refused);
    guard.release().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    wire.mend();
    let first = soon("its turn comes first", first).await.unwrap().unwrap();
    let token = first.token();
    first.release().await.unwrap();
    let second = soon("then the other's", second).await.unwrap().unwrap();
    assert!(second.token() > token);
}

async fn a_session_takes_locks_again_after_it_lost_its_lease(bench: Bench) {
    let (wire, session) = bench.wired(Duration::from_millis(500)).await;
    let name = bench.name();
    let guard = session.mutex(&name).lock().await.unwrap();
    wire.cut([Call::Renew], Fault::Refused);
    soon("the lease runs out", guard.lost()).await;
    wire.mend();
    let again = soon("there is a new lease", session.mutex(&name).lock())
        .await
        .unwrap();
    again.release().await.unwrap();
}

async fn a_wait_ends_at_its_deadline(bench: Bench) {
    let (a, b, name) = (
        bench.session(LONG).await,
        bench.session(LONG).await,
        bench.name(),
    );
    let _guard = a.mutex(&name).lock().await.unwrap();
    for mutex in [a.mutex(&name), b.mutex(&name)] {
        let longest = super::ENOUGH;
        let asked = Instant::now();
        let error = mutex.lock_within(longest).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(asked.elapsed() >= longest);
        assert!(asked.elapsed() < LONG / 6, "{:?}", asked.elapsed());
    }
}

async fn a_wait_ends_at_its_deadline_while_the_store_hangs(bench: Bench) {
    let (wire, session) = bench.wired(LONG).await;
    wire.cut(Call::ALL, Fault::Hangs);
    let asked = Instant::now();
    let longest = Duration::from_millis(200);
    session
        .mutex(bench.name())
        .lock_within(longest)
        .await
        .unwrap_err();
    let names = [bench.name(), bench.name()];
    session
        .lock_all(names)
        .lock_within(longest)
        .await
        .unwrap_err();
    assert!(asked.elapsed() < LONG / 6, "{:?}", asked.elapsed());
}

async fn closing_comes_to_an_end_while_the_store_hangs(bench: Bench) {
    let (wire, session) = bench.wired(Duration::from_secs(1)).await;
    let guard = session.mutex(bench.name()).lock().await.unwrap();
    wire.cut(Call::ALL, Fault::Hangs);
    soon("the ttl passes", session.close()).await;
    guard.check().unwrap_err();
}
