//! What operations do and expect, whatever is between them and the store.

use std::time::Duration;

use leasehold::engine::Queue;
use leasehold::{ErrorKind, Grade, Guard, Inspector, Session};

/// The lock of every scene.
pub(crate) const NAME: &str = "jobs/nightly";

/// How long one fault may hold anything up: the longest is a reply that never
/// comes.
const BOUND: Duration = Duration::from_secs(14);

/// The lock is free; others can have it, and so can the subject. Gives the
/// sessions back, so that none closes before the log is read.
pub(crate) async fn afterwards(witness: Session, subject: Session) -> [Session; 2] {
    expect_claims(&witness, 0).await;
    let mut last = None;
    for session in [&witness, &subject, &witness] {
        let guard = held(session.mutex(NAME).lock()).await;
        if session.promises().fence == Grade::Ordered {
            assert!(Some(guard.token()) > last, "tokens grow");
            last = Some(guard.token());
        }
        assert_eq!(look(&witness.inspector()).await.claims.len(), 1);
        give_back(guard).await;
    }
    expect_claims(&witness, 0).await;
    [witness, subject]
}

/// Waits until the lock has so many claims.
pub(crate) async fn expect_claims(witness: &Session, count: usize) {
    let inspector = witness.inspector();
    let seen = async {
        while look(&inspector).await.claims.len() != count {
            pause().await;
        }
    };
    within(&format!("come to {count} claims"), seen).await;
}

/// Waits until so many locks beside the scene's own have claims.
pub(crate) async fn expect_locks(witness: &Session, count: usize) {
    let inspector = witness.inspector();
    let beside = format!("{NAME}/");
    let seen = async {
        while inspector.locks(&beside).await.unwrap().len() != count {
            pause().await;
        }
    };
    within(&format!("come to {count} locks"), seen).await;
}

/// The guard of a wait that one fault must not fail.
pub(crate) async fn held(wait: impl Future<Output = leasehold::Result<Guard>>) -> Guard {
    let guard = within("hold", wait).await.unwrap();
    guard.check().unwrap();
    guard
}

/// Releases; whoever does not hear that the store did it is told so.
pub(crate) async fn give_back(guard: Guard) {
    if let Err(error) = within("release", guard.release()).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// Fails if it takes longer than one fault may.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(BOUND, work).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {BOUND:?}"))
}

/// Between two looks.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Whoever asks a busy machine for more than it answers in time asks again.
pub(crate) async fn look(inspector: &Inspector) -> Queue {
    let looking = async {
        loop {
            match inspector.queue(NAME).await {
                Ok(queue) => return queue,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            pause().await;
        }
    };
    within("look", looking).await
}
