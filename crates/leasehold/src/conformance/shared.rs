//! Readers share, writers exclude, and nobody starves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use super::bench::{Bench, soon, tried};
use super::{Case, Needs, peers, rwlock};
use crate::error::ErrorKind;

const TTL: Duration = Duration::from_secs(30);

pub(super) fn cases() -> Vec<Case> {
    let read_by_peers: Needs = |promises| peers(promises).and(rwlock(promises));
    vec![
        Case::new(&[17], rwlock, readers_share_and_a_writer_is_alone),
        Case::new(&[17], rwlock, a_waiting_writer_holds_back_later_readers),
        Case::new(&[17], rwlock, nobody_starves_among_readers_and_writers),
        Case::new(&[1, 17], rwlock, a_writer_never_meets_a_reader),
        Case::new(&[17, 18], rwlock, a_reader_writer_lock_is_no_mutex),
        Case::new(&[17], read_by_peers, readers_of_two_processes_share),
    ]
}

async fn readers_share_and_a_writer_is_alone(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let one = a.rwlock(&name).read().await.unwrap();
    let two = b.rwlock(&name).read().await.unwrap();
    let three = tried(|| async { a.rwlock(&name).try_read().await })
        .await
        .unwrap();
    assert!(
        tried(|| async { b.rwlock(&name).try_write().await })
            .await
            .is_none()
    );
    for guard in [one, two, three] {
        guard.release().await.unwrap();
    }
    let writer = tried(|| async { b.rwlock(&name).try_write().await })
        .await
        .unwrap();
    assert!(
        tried(|| async { a.rwlock(&name).try_read().await })
            .await
            .is_none()
    );
    assert!(
        tried(|| async { a.rwlock(&name).try_write().await })
            .await
            .is_none()
    );
    writer.release().await.unwrap();
}

async fn a_waiting_writer_holds_back_later_readers(bench: Bench) {
    let (a, b, c) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.session(TTL).await,
    );
    let name = bench.name();
    let reader = a.rwlock(&name).read().await.unwrap();
    let lock = b.rwlock(&name);
    let writing = tokio::spawn(async move { lock.write().await });
    bench.queue_of(&name, 2).await;
    assert!(
        tried(|| async { c.rwlock(&name).try_read().await })
            .await
            .is_none()
    );
    let lock = c.rwlock(&name);
    let reading = tokio::spawn(async move { lock.read().await });
    bench.queue_of(&name, 3).await;
    let queue = bench.queue(&name).await;
    assert_eq!(queue.holders().count(), 1, "{queue:?}");
    reader.release().await.unwrap();
    let writer = soon("the writer is next", writing).await.unwrap().unwrap();
    let token = writer.token();
    writer.release().await.unwrap();
    let later = soon("then the reader", reading).await.unwrap().unwrap();
    assert!(later.token() > token);
}

async fn nobody_starves_among_readers_and_writers(bench: Bench) {
    let name = bench.name();
    let mut tasks = Vec::new();
    for number in 0..4 {
        let lock = bench.session(TTL).await.rwlock(&name);
        tasks.push(tokio::spawn(async move {
            for _ in 0..15 {
                let guard = match number % 2 {
                    0 => lock.read().await.unwrap(),
                    _ => lock.write().await.unwrap(),
                };
                tokio::time::sleep(Duration::from_millis(3)).await;
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon("everyone comes to an end", task).await.unwrap();
    }
}

async fn a_writer_never_meets_a_reader(bench: Bench) {
    let name = bench.name();
    let inside = Arc::new(AtomicI32::new(0));
    let mut tasks = Vec::new();
    for number in 0..6 {
        let (lock, inside) = (bench.session(TTL).await.rwlock(&name), inside.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let writes = number % 3 == 0;
                let guard = if writes {
                    lock.write().await
                } else {
                    lock.read().await
                }
                .unwrap();
                // A writer counts as minus a thousand.
                let step = if writes { -1000 } else { 1 };
                let before = inside.fetch_add(step, Ordering::SeqCst);
                assert!(if writes { before == 0 } else { before >= 0 }, "{before}");
                tokio::task::yield_now().await;
                inside.fetch_sub(step, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon("everyone comes to an end", task).await.unwrap();
    }
}

async fn a_reader_writer_lock_is_no_mutex(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let _reader = a.rwlock(&name).read().await.unwrap();
    let error = b.mutex(&name).lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("mutex"), "{error}");
    assert!(error.to_string().contains("reader-writer lock"), "{error}");
}

async fn readers_of_two_processes_share(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(TTL).await,
        bench.name(),
    );
    let reader = session.rwlock(&name).read().await.unwrap();
    peer.granted(&format!("read {name}")).await;
    reader.release().await.unwrap();
    assert!(
        tried(|| async { session.rwlock(&name).try_write().await })
            .await
            .is_none()
    );
    assert_eq!(peer.ask("release").await, "ok");
    drop(
        soon("the readers have left", session.rwlock(&name).write())
            .await
            .unwrap(),
    );
}
