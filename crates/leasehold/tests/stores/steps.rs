//! What tests of any store do, and what they wait for.

use std::time::Duration;

use leasehold::engine::{Claimant, Queue};
use leasehold::{ErrorKind, Guard, Inspector, Lost, Session};
use tokio::task::JoinHandle;

/// How long anything may take that must come.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// The answer of a store that is there. A busy machine may give it too late; then it is
/// asked again.
pub(crate) async fn answered<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = leasehold::Result<T>>,
{
    let answering = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let answer = tokio::time::timeout(LONG, answering).await;
    answer.expect("the store answers")
}

/// Waits until a hold has been renewed so often.
pub(crate) async fn renewed(guard: &Guard, times: usize) {
    for _ in 0..times {
        let mut least = guard.valid_for();
        while guard.valid_for() <= least {
            guard.check().unwrap();
            least = guard.valid_for();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) async fn session(url: &str, options: &str) -> Session {
    let url = format!("{url}?{options}");
    answered(|| leasehold::connect(&url)).await
}

pub(crate) async fn inspector(url: &str) -> Inspector {
    answered(|| leasehold::inspect(url)).await
}

pub(crate) async fn lock(session: &Session, name: &str) -> Guard {
    session.mutex(name).lock_within(LONG).await.unwrap()
}

/// The lock, if it is free.
pub(crate) async fn try_lock(session: &Session, name: &str) -> Option<Guard> {
    let mutex = session.mutex(name);
    answered(|| mutex.try_lock()).await
}

pub(crate) async fn lost(guard: &Guard) -> Lost {
    tokio::time::timeout(LONG, guard.lost())
        .await
        .expect("it is told")
}

/// Waits until so many claims are in the queue.
pub(crate) async fn queue_of(inspector: &Inspector, name: &str, length: usize) {
    until_queue(inspector, name, |queue| queue.claims.len() == length).await;
}

/// Waits until another claim queues for what this guard holds, or held a moment ago.
pub(crate) async fn queued_behind(inspector: &Inspector, guard: &Guard) {
    let is_other = |claim: &Claimant| claim.token != Some(guard.token());
    until_queue(inspector, guard.name(), |queue| {
        queue.claims.iter().any(is_other)
    })
    .await;
}

async fn until_queue(inspector: &Inspector, name: &str, is_so: impl Fn(&Queue) -> bool) {
    let waiting = async {
        while !is_so(&answered(|| inspector.queue(name)).await) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(LONG, waiting).await;
    waited.expect("the queue comes to be so");
}

/// A task that waits for a lock.
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
