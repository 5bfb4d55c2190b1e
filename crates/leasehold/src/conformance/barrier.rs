//! Double barriers: all go in together, and none has left before all have.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::bench::{Bench, soon, until, when_over};
use super::{Case, memo, peers, promised, semaphore};
use crate::barrier::{Barrier, Entered};
use crate::error::{ErrorKind, Result as Outcome};
use crate::name::Name;
use crate::promises::Promises;

/// Longer than a case may take, so that it does not run out by itself.
const TTL: Duration = Duration::from_secs(60);
/// Of those who are killed.
const SHORT: Duration = Duration::from_secs(2);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[], barriers, nobody_is_in_before_all_are_here),
        Case::new(&[], barriers, nobody_has_left_before_all_have),
        Case::new(&[], barriers, one_too_many_waits_for_the_next_time),
        Case::new(&[], barriers, members_go_round_in_step),
        Case::new(&[1], barriers, those_who_hold_are_told_and_nobody_else),
        Case::new(&[13], barriers, who_gives_up_does_not_count),
        Case::new(
            &[],
            barriers,
            who_leaves_hears_that_it_is_forgotten_who_went_in,
        ),
        Case::new(&[18], barriers, another_number_or_use_is_refused),
        Case::new(
            &[9],
            barriers_and_peers,
            who_dies_before_all_are_here_does_not_count,
        ),
        Case::new(
            &[9],
            barriers_and_peers,
            who_dies_inside_holds_nobody_up_for_longer_than_its_ttl,
        ),
        Case::new(
            &[10],
            barriers_and_peers,
            who_is_stopped_inside_holds_nobody_up_for_long,
        ),
        Case::new(
            &[9],
            barriers_and_peers,
            who_dies_while_opening_is_in_the_way_for_its_ttl_at_most,
        ),
    ]
}

fn barriers(promises: &Promises) -> Result<(), &'static str> {
    let has_both = memo(promises).and(semaphore(promises));
    has_both.and(promised(promises.holders, "does not tell who holds"))
}

fn barriers_and_peers(promises: &Promises) -> Result<(), &'static str> {
    barriers(promises).and(peers(promises))
}

type Entering = tokio::task::JoinHandle<Outcome<Entered>>;

async fn entering(bench: &Bench, name: &str, total: u32) -> Entering {
    let barrier = bench.session(TTL).await.barrier(name, total);
    tokio::spawn(async move { barrier.enter().await })
}

async fn entered(entering: Entering) -> Entered {
    soon("all are here", entering).await.unwrap().unwrap()
}

/// It is not done, also after it had time for several looks at the store.
async fn waits_on<T: Debug>(task: &mut tokio::task::JoinHandle<T>) {
    let done = tokio::time::timeout(Duration::from_millis(100), task).await;
    assert!(done.is_err(), "it does not wait: {done:?}");
}

async fn nobody_is_in_before_all_are_here(bench: Bench) {
    let name = bench.name();
    let (mut one, mut other) = (
        entering(&bench, &name, 3).await,
        entering(&bench, &name, 3).await,
    );
    bench.queue_of(&name, 2).await;
    waits_on(&mut one).await;
    waits_on(&mut other).await;
    let last = entering(&bench, &name, 3).await;
    for one in [one, other, last] {
        entered(one).await.guard().check().unwrap();
    }
    bench.queue_of(&name, 0).await;
}

async fn those_who_hold_are_told_and_nobody_else(bench: Bench) {
    let (engine, name) = (bench.engine().await, bench.name());
    let own = Name::new(&name).unwrap();
    let told = async || {
        let mut told = engine.holders(&own).await.unwrap();
        told.sort_unstable();
        told
    };
    assert!(told().await.is_empty());
    let permits = bench.session(TTL).await.semaphore(&name, 2);
    let (one, other) = (
        permits.acquire().await.unwrap(),
        permits.acquire().await.unwrap(),
    );
    let (mut both, last) = ([one.fence().holder, other.fence().holder], permits.clone());
    both.sort_unstable();
    let waiting = tokio::spawn(async move { last.acquire().await });
    bench.queue_of(&name, 3).await;
    assert_eq!(told().await, both);
    one.release().await.unwrap();
    let third = soon("the third has a permit", waiting).await.unwrap();
    let third = third.unwrap();
    let mut both = [other.fence().holder, third.fence().holder];
    both.sort_unstable();
    assert_eq!(told().await, both);
    other.release().await.unwrap();
    third.release().await.unwrap();
    assert!(told().await.is_empty());
}

async fn nobody_has_left_before_all_have(bench: Bench) {
    let name = bench.name();
    let (one, other) = (
        entering(&bench, &name, 2).await,
        entering(&bench, &name, 2).await,
    );
    let (one, other) = (entered(one).await, entered(other).await);
    let mut leaving = tokio::spawn(one.leave());
    bench.queue_of(&name, 1).await;
    waits_on(&mut leaving).await;
    soon("the last leaves", other.leave()).await.unwrap();
    soon("all have left", leaving).await.unwrap().unwrap();
}

async fn who_leaves_hears_that_it_is_forgotten_who_went_in(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let (one, other) = (
        entering(&bench, &name, 2).await,
        entering(&bench, &name, 2).await,
    );
    let (one, other) = (entered(one).await, entered(other).await);
    let mut leaving = tokio::spawn(one.leave());
    bench.queue_of(&name, 1).await;
    waits_on(&mut leaving).await;
    // As a store that forgets: neither of the two is left.
    let gate = session.mutex(format!("{name}.gate")).lock().await.unwrap();
    gate.write_memo("").await.unwrap();
    gate.release().await.unwrap();
    drop(other);
    let left = soon("it is told", leaving).await.unwrap();
    assert!(
        matches!(&left, Err(error) if matches!(error.kind(), ErrorKind::Lost(_))),
        "{left:?}"
    );
}

async fn one_too_many_waits_for_the_next_time(bench: Bench) {
    let name = bench.name();
    let (one, other) = (
        entering(&bench, &name, 2).await,
        entering(&bench, &name, 2).await,
    );
    let (one, other) = (entered(one).await, entered(other).await);
    let mut third = entering(&bench, &name, 2).await;
    bench.queue_of(&name, 3).await;
    // It has a permit now, and one of the last time is still in: they are not two.
    let mut leaving = tokio::spawn(one.leave());
    bench.queue_of(&name, 2).await;
    waits_on(&mut third).await;
    waits_on(&mut leaving).await;
    soon("the last leaves", other.leave()).await.unwrap();
    soon("all have left", leaving).await.unwrap().unwrap();
    waits_on(&mut third).await;
    let fourth = entering(&bench, &name, 2).await;
    drop((entered(third).await, entered(fourth).await));
}

async fn members_go_round_in_step(bench: Bench) {
    const MEMBERS: u32 = 3;
    const ROUNDS: u32 = 4;
    let name = bench.name();
    let counts = Arc::new([AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)]);
    let mut members = Vec::new();
    for _ in 0..MEMBERS {
        let barrier: Barrier = bench.session(TTL).await.barrier(&name, MEMBERS);
        let counts = counts.clone();
        members.push(tokio::spawn(async move {
            let [coming, inside, gone] = &*counts;
            for round in 1..=ROUNDS {
                coming.fetch_add(1, Ordering::SeqCst);
                let entered = barrier.enter().await.unwrap();
                assert_eq!(coming.load(Ordering::SeqCst), MEMBERS * round);
                inside.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                gone.fetch_add(1, Ordering::SeqCst);
                entered.leave().await.unwrap();
                assert!(gone.load(Ordering::SeqCst) >= MEMBERS * round);
                assert!(inside.load(Ordering::SeqCst) >= MEMBERS * round);
            }
        }));
    }
    for member in members {
        soon("all go round", member).await.unwrap();
    }
    bench.queue_of(&name, 0).await;
}

async fn who_gives_up_does_not_count(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let barrier = session.barrier(&name, 2);
    let error = barrier.enter_within(Duration::from_millis(50)).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::TimedOut);
    bench.queue_of(&name, 0).await;
    let mut one = entering(&bench, &name, 2).await;
    bench.queue_of(&name, 1).await;
    waits_on(&mut one).await;
    let other = soon("two are here", barrier.enter()).await.unwrap();
    drop((entered(one).await, other));
}

async fn another_number_or_use_is_refused(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let one = entering(&bench, &name, 2).await;
    bench.queue_of(&name, 1).await;
    let error = session.barrier(&name, 3).enter().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    one.abort();
    let other = bench.name();
    let gate = format!("{other}.gate");
    let guard = session.mutex(&gate).lock().await.unwrap();
    guard.write_memo("something else").await.unwrap();
    guard.release().await.unwrap();
    let error = session.barrier(&other, 2).enter().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    for total in [0, crate::MOST_MEMBERS + 1] {
        let error = session.barrier(&other, total).enter().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
}

async fn who_dies_before_all_are_here_does_not_count(bench: Bench) {
    let name = bench.name();
    let mut peer = bench.peer(SHORT).await;
    peer.tell(&format!("enter 2 {name}"));
    bench.queue_of(&name, 1).await;
    peer.kill();
    when_over(SHORT, bench.queue_of(&name, 0)).await;
    let mut one = entering(&bench, &name, 2).await;
    bench.queue_of(&name, 1).await;
    waits_on(&mut one).await;
    let other = entering(&bench, &name, 2).await;
    drop((entered(one).await, entered(other).await));
}

async fn who_dies_inside_holds_nobody_up_for_longer_than_its_ttl(bench: Bench) {
    let name = bench.name();
    let mut peer = bench.peer(SHORT).await;
    peer.tell(&format!("enter 2 {name}"));
    let one = entered(entering(&bench, &name, 2).await).await;
    assert_eq!(peer.answer().await, "entered");
    peer.kill();
    when_over(SHORT, one.leave()).await.unwrap();
}

async fn who_is_stopped_inside_holds_nobody_up_for_long(bench: Bench) {
    let name = bench.name();
    let mut peer = bench.peer(SHORT).await;
    peer.tell(&format!("enter 2 {name}"));
    let one = entered(entering(&bench, &name, 2).await).await;
    assert_eq!(peer.answer().await, "entered");
    peer.stop();
    when_over(SHORT, one.leave()).await.unwrap();
    peer.resume();
    let answer = peer.ask("leave").await;
    assert!(answer.starts_with("error: "), "it was not in: {answer}");
}

async fn who_dies_while_opening_is_in_the_way_for_its_ttl_at_most(bench: Bench) {
    let name = bench.name();
    let mut peer = bench.peer(SHORT).await;
    // As far as one gets who writes down that all are here.
    peer.granted(&format!("lock {name}.gate")).await;
    let (mut one, mut other) = (
        entering(&bench, &name, 2).await,
        entering(&bench, &name, 2).await,
    );
    bench.queue_of(&name, 2).await;
    waits_on(&mut one).await;
    waits_on(&mut other).await;
    peer.kill();
    let (one, other) = when_over(SHORT, async { tokio::join!(one, other) }).await;
    let (one, other) = (one.unwrap().unwrap(), other.unwrap().unwrap());
    let leaving = tokio::spawn(one.leave());
    other.leave().await.unwrap();
    soon("all have left", leaving).await.unwrap().unwrap();
    until("the gate is free", || async {
        let gate = bench.queue(format!("{name}.gate")).await;
        gate.claims.is_empty()
    })
    .await;
}
