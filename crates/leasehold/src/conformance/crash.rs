//! Processes that are killed or stopped, as holders and as waiters.

use std::time::{Duration, Instant};

use super::bench::{Bench, soon, try_lock};
use super::{Case, Needs, fair, peers, tokens};
use crate::promises::{Freed, Promises};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(1);

pub(super) fn cases() -> Vec<Case> {
    let fair_peers: Needs = |promises| peers(promises).and(fair(promises));
    let fenced_peers: Needs = |promises| peers(promises).and(tokens(promises));
    vec![
        Case::new(&[9], at_once, a_killed_holder_frees_the_lock_at_once),
        Case::new(&[9], peers, a_killed_holder_blocks_for_at_most_its_ttl),
        Case::new(
            &[3, 10],
            fenced_peers,
            a_stopped_holder_blocks_for_at_most_its_ttl_and_wakes_up_lost,
        ),
        Case::new(
            &[11],
            peers,
            a_killed_waiter_does_not_hold_up_those_behind_it,
        ),
        Case::new(
            &[11],
            fair_peers,
            the_delays_of_stopped_waiters_do_not_add_up,
        ),
        Case::new(&[13], peers, a_process_that_ends_leaves_nothing),
    ]
}

fn at_once(promises: &Promises) -> Result<(), &'static str> {
    peers(promises)?;
    let is_promised = promises.crash == Freed::AtOnce;
    super::promised(is_promised, "frees a killed holder's lock after its ttl")
}

async fn a_killed_holder_frees_the_lock_at_once(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(LONG).await,
        bench.peer(LONG).await,
        bench.name(),
    );
    peer.granted(&format!("lock {name}")).await;
    let mutex = session.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    let killed = Instant::now();
    peer.kill();
    let guard = soon("the lock is free", waiting).await.unwrap().unwrap();
    assert!(killed.elapsed() < LONG / 2, "{:?}", killed.elapsed());
    guard.release().await.unwrap();
}

async fn a_killed_holder_blocks_for_at_most_its_ttl(bench: Bench) {
    const TTL: Duration = Duration::from_secs(5);
    let (session, mut peer, name) = (
        bench.session(LONG).await,
        bench.peer(TTL).await,
        bench.name(),
    );
    peer.granted(&format!("lock {name}")).await;
    let killed = Instant::now();
    peer.kill();
    drop(
        soon("the lease runs out", session.mutex(&name).lock())
            .await
            .unwrap(),
    );
    // Far less than the ttl of the one who waits.
    assert!(killed.elapsed() < TTL * 2, "{:?}", killed.elapsed());
}

async fn a_stopped_holder_blocks_for_at_most_its_ttl_and_wakes_up_lost(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(LONG).await,
        bench.peer(SHORT).await,
        bench.name(),
    );
    let stale = peer.granted(&format!("lock {name}")).await;
    peer.stop();
    let guard = soon("the lease runs out", session.mutex(&name).lock())
        .await
        .unwrap();
    // The question is there before the peer wakes up, so this is the first
    // thing that it learns.
    peer.tell("check");
    peer.resume();
    let answer = peer.answer().await;
    assert!(
        answer.starts_with("error: ") && answer.contains("lost"),
        "{answer}"
    );
    assert!(
        guard.token().get() > stale,
        "a fenced write of the stale holder is refused"
    );
    let released = peer.ask("release").await;
    assert!(released.contains("lost"), "{released}");
    guard.check().unwrap();
    guard.release().await.unwrap();
}

async fn a_killed_waiter_does_not_hold_up_those_behind_it(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(LONG).await,
        bench.peer(SHORT).await,
        bench.name(),
    );
    let other = bench.session(LONG).await;
    let guard = session.mutex(&name).lock().await.unwrap();
    peer.tell(&format!("lock {name}"));
    bench.queue_of(&name, 2).await;
    let mutex = other.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    bench.queue_of(&name, 3).await;
    peer.kill();
    guard.release().await.unwrap();
    soon("the one behind gets it", waiting)
        .await
        .unwrap()
        .unwrap();
}

async fn the_delays_of_stopped_waiters_do_not_add_up(bench: Bench) {
    const TTL: Duration = Duration::from_secs(3);
    const PEERS: usize = 8;
    let (session, other, name) = (
        bench.session(LONG).await,
        bench.session(LONG).await,
        bench.name(),
    );
    let guard = session.mutex(&name).lock().await.unwrap();
    let mut stopped = Vec::new();
    for number in 0..PEERS {
        let mut peer = bench.peer(TTL).await;
        peer.tell(&format!("lock {name}"));
        bench.queue_of(&name, number + 2).await;
        stopped.push(peer);
    }
    let mutex = other.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    bench.queue_of(&name, PEERS + 2).await;
    stopped.iter().for_each(super::Peer::stop);
    let start = Instant::now();
    guard.release().await.unwrap();
    soon("the one behind gets it", waiting)
        .await
        .unwrap()
        .unwrap();
    // One after the other they would take eight ttls.
    assert!(start.elapsed() < TTL * 5, "{:?}", start.elapsed());
}

async fn a_process_that_ends_leaves_nothing(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(LONG).await,
        bench.peer(LONG).await,
        bench.name(),
    );
    peer.granted(&format!("lock {name}")).await;
    assert_eq!(peer.ask("close").await, "ok");
    assert!(try_lock(&session, &name).await.is_some());
}
