//! What tests do with locks in a database, and how long they wait for it.

use std::time::Duration;

use leasehold::{ErrorKind, Guard, Inspector, Lost, Session};
use tokio::task::JoinHandle;

/// How long a test waits for what must come.
pub(crate) const LONG: Duration = Duration::from_secs(120);

pub(crate) async fn session(url: &str, options: &str) -> Session {
    leasehold::connect(&format!("{url}?{options}"))
        .await
        .unwrap()
}

pub(crate) async fn lock(session: &Session, name: &str) -> Guard {
    session.mutex(name).lock_within(LONG).await.unwrap()
}

pub(crate) async fn lost(guard: &Guard) -> Lost {
    tokio::time::timeout(LONG, guard.lost())
        .await
        .expect("it is told")
}

pub(crate) async fn inspector(url: &str) -> Inspector {
    leasehold::inspect(url).await.unwrap()
}

/// Waits until so many claims are in the queue.
pub(crate) async fn queue_of(inspector: &Inspector, name: &str, length: usize) {
    let waiting = async {
        while inspector.queue(name).await.unwrap().claims.len() != length {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting)
        .await
        .expect("the queue has the length");
}

/// Somebody who waits for a lock in the background.
pub(crate) fn wait_for_lock(session: &Session, name: &str) -> JoinHandle<Guard> {
    let mutex = session.mutex(name);
    tokio::spawn(async move { mutex.lock_within(LONG).await.unwrap() })
}

/// What came of waiting in the background.
pub(crate) async fn heard<T>(waiting: JoinHandle<T>) -> T {
    tokio::time::timeout(LONG, waiting).await.unwrap().unwrap()
}

/// Why there is no session, in one line.
pub(crate) async fn refusal(url: &str) -> (ErrorKind, String) {
    let error = leasehold::connect(url).await.expect_err("it is refused");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    (error.kind(), text)
}
