//! Every grant on a name gets a greater token than all before it.

use std::time::Duration;

use super::bench::{Bench, soon, until};
use super::wire::{Call, Fault};
use super::{Case, peers, tokens};

const TTL: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(500);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[2], tokens, tokens_grow_over_releases_and_drops),
        Case::new(&[2], tokens, tokens_grow_when_everyone_has_left),
        Case::new(&[2, 3], tokens, tokens_grow_over_an_expiry),
        Case::new(&[2, 13], tokens, tokens_grow_over_a_cancelled_wait),
        Case::new(
            &[2],
            tokens,
            hand_overs_inside_a_process_have_their_own_tokens,
        ),
        Case::new(
            &[2],
            |promises| peers(promises).and(tokens(promises)),
            tokens_grow_across_processes,
        ),
    ]
}

async fn tokens_grow_over_releases_and_drops(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let mut last = None;
    for turn in 0..20 {
        let session = if turn % 2 == 0 { &a } else { &b };
        let mutex = session.mutex(&name);
        let guard = soon("the lock is free", mutex.lock()).await.unwrap();
        let token = guard.token();
        assert!(last < Some(token), "{last:?} then {token}");
        last = Some(token);
        if turn % 3 == 0 {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
    }
}

/// No claim is left, so the store may have forgotten that there was a lock.
async fn tokens_grow_when_everyone_has_left(bench: Bench) {
    let name = bench.name();
    let session = bench.session(TTL).await;
    let token = session.mutex(&name).lock().await.unwrap().token();
    session.close().await;
    assert!(bench.inspector().names("").await.unwrap().is_empty());
    let session = bench.session(TTL).await;
    let later = session.mutex(&name).lock().await.unwrap().token();
    assert!(later > token, "{token} then {later}");
}

async fn tokens_grow_over_an_expiry(bench: Bench) {
    let (wire, session) = bench.wired(SHORT).await;
    let (next, name) = (bench.session(TTL).await, bench.name());
    let lost = session.mutex(&name).lock().await.unwrap();
    wire.cut(Call::ALL, Fault::Hangs);
    let guard = soon("the lease runs out", next.mutex(&name).lock())
        .await
        .unwrap();
    assert!(guard.token() > lost.token());
}

async fn tokens_grow_over_a_cancelled_wait(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = a.mutex(&name).lock().await.unwrap();
    let before = guard.token();
    let waited = b.mutex(&name).lock_within(Duration::from_millis(50)).await;
    waited.unwrap_err();
    guard.release().await.unwrap();
    let after = soon("the lock is free", b.mutex(&name).lock())
        .await
        .unwrap();
    assert!(after.token() > before);
}

async fn hand_overs_inside_a_process_have_their_own_tokens(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let first = session.mutex(&name).lock().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..50 {
        let mutex = session.mutex(&name);
        tasks.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            let fence = guard.fence();
            guard.release().await.unwrap();
            fence
        }));
    }
    tokio::task::yield_now().await;
    let mut seen = vec![first.token()];
    first.release().await.unwrap();
    for task in tasks {
        seen.push(soon("everyone gets the lock", task).await.unwrap().token);
    }
    let grants = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), grants, "a token was given twice");
}

async fn tokens_grow_across_processes(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(TTL).await,
        bench.name(),
    );
    let mut last = 0;
    for _ in 0..5 {
        let guard = session.mutex(&name).lock().await.unwrap();
        assert!(guard.token().get() > last);
        last = guard.token().get();
        guard.release().await.unwrap();
        let token = peer.granted(&format!("lock {name}")).await;
        assert!(token > last, "{last} then {token}");
        last = token;
        assert_eq!(peer.ask("release").await, "ok");
        until("the lock is free", || async {
            bench.queue(&name).await.claims.is_empty()
        })
        .await;
    }
}
