//! A wait that is given up leaves the queue at once, from any await point.

use std::task::Poll;
use std::time::Duration;

use super::bench::{Bench, soon};
use super::{Case, fair, nothing};
use crate::error::ErrorKind;
use crate::session::Session;

/// Longer than a case may take: nothing here waits for a lease to run out.
const TTL: Duration = Duration::from_secs(60);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[11, 13], nothing, a_cancelled_wait_leaves_the_queue),
        Case::new(&[13], nothing, a_wait_may_be_dropped_at_any_poll),
        Case::new(&[13], nothing, a_free_lock_may_be_dropped_at_any_poll),
        Case::new(&[13], nothing, a_wait_that_times_out_leaves_the_queue),
        Case::new(
            &[11, 16],
            fair,
            those_behind_a_cancelled_wait_keep_their_order,
        ),
        Case::new(
            &[13],
            nothing,
            a_cancelled_wait_passes_its_place_on_inside_the_process,
        ),
    ]
}

async fn a_cancelled_wait_leaves_the_queue(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = a.mutex(&name).lock().await.unwrap();
    let mutex = b.mutex(&name);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    bench.queue_of(&name, 2).await;
    waiting.abort();
    bench.queue_of(&name, 1).await;
    guard.release().await.unwrap();
    bench.queue_of(&name, 0).await;
}

async fn a_wait_may_be_dropped_at_any_poll(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = a.mutex(&name).lock().await.unwrap();
    for polls in 0..25 {
        drop_after(&b, &name, polls).await;
    }
    bench.queue_of(&name, 1).await;
    guard.release().await.unwrap();
    let mutex = b.mutex(&name);
    soon("the lock is free", mutex.lock())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

async fn a_free_lock_may_be_dropped_at_any_poll(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    for polls in 0..25 {
        drop_after(&session, &name, polls).await;
    }
    bench.queue_of(&name, 0).await;
}

/// Polls a lock so many times, or for a while, and drops it, guard and all.
async fn drop_after(session: &Session, name: &str, mut polls: u32) {
    let mutex = session.mutex(name);
    let mut locking = std::pin::pin!(mutex.lock());
    let stepping = std::future::poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(());
        }
        polls -= 1;
        if polls == 0 {
            context.waker().wake_by_ref();
        }
        locking.as_mut().poll(context).map(drop)
    });
    let _ = tokio::time::timeout(Duration::from_millis(50), stepping).await;
}

async fn a_wait_that_times_out_leaves_the_queue(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let _guard = a.mutex(&name).lock().await.unwrap();
    let waited = b.mutex(&name).lock_within(super::ENOUGH).await;
    let error = waited.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    bench.queue_of(&name, 1).await;
}

async fn those_behind_a_cancelled_wait_keep_their_order(bench: Bench) {
    let name = bench.name();
    let holder = bench.session(TTL).await;
    let guard = holder.mutex(&name).lock().await.unwrap();
    let mut waits = Vec::new();
    for number in 0..5 {
        let session = bench.session(TTL).await;
        let mutex = session.mutex(&name);
        waits.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            token
        }));
        bench.queue_of(&name, number + 2).await;
    }
    waits.remove(3).abort();
    waits.remove(0).abort();
    bench.queue_of(&name, 4).await;
    guard.release().await.unwrap();
    let mut tokens = Vec::new();
    for wait in waits {
        tokens.push(soon("it is its turn", wait).await.unwrap());
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
}

async fn a_cancelled_wait_passes_its_place_on_inside_the_process(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = a.mutex(&name).lock().await.unwrap();
    let [first, second, last] = [(); 3].map(|()| {
        let mutex = b.mutex(&name);
        tokio::spawn(async move { mutex.lock().await.map(drop) })
    });
    bench.queue_of(&name, 2).await;
    first.abort();
    second.abort();
    guard.release().await.unwrap();
    soon("one of them is left and gets it", last)
        .await
        .unwrap()
        .unwrap();
    bench.queue_of(&name, 0).await;
}
