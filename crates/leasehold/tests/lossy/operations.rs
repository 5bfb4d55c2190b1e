//! What a session does while one of its requests is lost.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::join_all;
use leasehold::{ErrorKind, Lost, Promises, Session};

use crate::scene::Scene;
use crate::steps::{
    NAME, afterwards, expect_claims, expect_locks, give_back, held, look, pause, within,
};

/// One thing that users do.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Whether a store with these promises can do it.
    pub(crate) needs: fn(&Promises) -> bool,
    pub(crate) run: fn(Arc<Scene>) -> Running,
}

type Running = Pin<Box<dyn Future<Output = [Session; 2]> + Send>>;

pub(crate) const OPERATIONS: &[Operation] = &[
    operation("lock_renew_release", |scene| Box::pin(lock(scene))),
    operation("wait_in_line", |scene| Box::pin(wait(scene))),
    operation("hand_over", |scene| Box::pin(hand_over(scene))),
    operation("try_lock", |scene| Box::pin(try_lock(scene))),
    operation("cancel", |scene| Box::pin(cancel(scene))),
    operation("drop", |scene| Box::pin(dropping(scene))),
    operation("close", |scene| Box::pin(close(scene))),
    operation("evict", |scene| Box::pin(evict(scene))),
    Operation {
        needs: |promises| promises.fair,
        ..operation("many_at_once", |scene| Box::pin(many(scene)))
    },
    Operation {
        needs: |promises| promises.rwlock,
        ..operation("rwlock", |scene| Box::pin(rwlock(scene)))
    },
    Operation {
        needs: |promises| promises.semaphore,
        ..operation("semaphore", |scene| Box::pin(semaphore(scene)))
    },
];

const fn operation(name: &'static str, run: fn(Arc<Scene>) -> Running) -> Operation {
    Operation {
        name,
        needs: |_| true,
        run,
    }
}

async fn lock(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let guard = held(subject.mutex(NAME).lock()).await;
    assert_eq!(look(&witness.inspector()).await.claims.len(), 1);
    let mut least = guard.valid_for();
    // It grows only when a renewal got through; one fault must leave time for
    // that before the guard is lost.
    while guard.valid_for() <= least {
        guard.check().unwrap();
        least = guard.valid_for();
        pause().await;
    }
    guard.check().unwrap();
    assert_eq!(look(&witness.inspector()).await.claims.len(), 1);
    give_back(guard).await;
    afterwards(witness, subject).await
}

async fn wait(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let first = held(witness.mutex(NAME).lock()).await;
    let sent = scene.proxy.log().len();
    let mutex = subject.mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    scene.until_it_waits(&witness, sent).await;
    assert!(look(&witness.inspector()).await.claims.len() <= 2);
    give_back(first).await;
    let guard = within("be handed the lock", waiting).await.unwrap();
    let guard = guard.unwrap();
    guard.check().unwrap();
    assert_eq!(look(&witness.inspector()).await.claims.len(), 1);
    give_back(guard).await;
    afterwards(witness, subject).await
}

async fn hand_over(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let first = held(subject.mutex(NAME).lock()).await;
    let sent = scene.proxy.log().len();
    let mutex = witness.mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    if witness.promises().fair {
        scene.until_it_waits(&witness, sent).await;
    }
    give_back(first).await;
    let guard = within("be handed the lock", waiting).await.unwrap();
    let guard = guard.unwrap();
    assert_eq!(look(&witness.inspector()).await.claims.len(), 1);
    give_back(guard).await;
    afterwards(witness, subject).await
}

async fn try_lock(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    match within("try", subject.mutex(NAME).try_lock()).await {
        Ok(guard) => {
            let guard = guard.expect("nobody else has it");
            guard.check().unwrap();
            assert_eq!(look(&witness.inspector()).await.claims.len(), 1);
            give_back(guard).await;
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
    }
    expect_claims(&witness, 0).await;
    let theirs = held(witness.mutex(NAME).lock()).await;
    match within("try", subject.mutex(NAME).try_lock()).await {
        Ok(guard) => assert!(guard.is_none(), "another has it"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
    }
    expect_claims(&witness, 1).await;
    give_back(theirs).await;
    afterwards(witness, subject).await
}

async fn cancel(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let theirs = held(witness.mutex(NAME).lock()).await;
    let sent = scene.proxy.log().len();
    let mutex = subject.mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    scene.until_it_waits(&witness, sent).await;
    waiting.abort();
    let _ = waiting.await;
    expect_claims(&witness, 1).await;
    theirs.check().unwrap();
    give_back(theirs).await;
    afterwards(witness, subject).await
}

async fn dropping(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    drop(held(subject.mutex(NAME).lock()).await);
    afterwards(witness, subject).await
}

async fn close(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let guard = held(subject.mutex(NAME).lock()).await;
    within("close", subject.close()).await;
    assert_eq!(guard.lost().await, Lost::Closed);
    let next = scene.subject().await;
    afterwards(witness, next).await
}

async fn evict(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let theirs = held(witness.mutex(NAME).lock()).await;
    let inspector = subject.inspector();
    // Whoever does not hear that the store did it asks again.
    let evicted = async {
        while let Err(error) = inspector.evict(NAME, "a test", "to see").await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            pause().await;
        }
    };
    within("evict", evicted).await;
    assert_eq!(within("be told", theirs.lost()).await, Lost::Evicted);
    afterwards(witness, subject).await
}

/// So many that they go in company.
async fn many(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let mutexes = (0..8).map(|number| subject.mutex(format!("{NAME}/{number}")));
    let locking = mutexes.map(|mutex| async move { held(mutex.lock()).await });
    let guards = join_all(locking).await;
    expect_locks(&witness, 8).await;
    join_all(guards.into_iter().map(give_back)).await;
    expect_locks(&witness, 0).await;
    afterwards(witness, subject).await
}

async fn rwlock(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let ours = held(subject.rwlock(NAME).read()).await;
    let theirs = held(witness.rwlock(NAME).read()).await;
    assert_eq!(look(&witness.inspector()).await.holders().count(), 2);
    give_back(ours).await;
    expect_claims(&witness, 1).await;
    let lock = subject.rwlock(NAME);
    let writing = tokio::spawn(async move { lock.write().await });
    expect_claims(&witness, 2).await;
    give_back(theirs).await;
    let writer = within("write", writing).await.unwrap().unwrap();
    assert_eq!(look(&witness.inspector()).await.claims.len(), 1);
    give_back(writer).await;
    afterwards(witness, subject).await
}

async fn semaphore(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let theirs = held(witness.semaphore(NAME, 3).acquire()).await;
    let ours = held(subject.semaphore(NAME, 3).acquire_many(2)).await;
    let queue = look(&witness.inspector()).await;
    let weights: Vec<u32> = queue.holders().map(|holder| holder.weight).collect();
    assert_eq!(weights, [1, 2]);
    give_back(ours).await;
    expect_claims(&witness, 1).await;
    give_back(theirs).await;
    afterwards(witness, subject).await
}
