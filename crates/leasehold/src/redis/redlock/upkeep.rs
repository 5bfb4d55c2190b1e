//! What has to go on beside the session's requests. Engines do not spawn: the
//! session's own task runs these beside its renewals.

use std::fmt;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Mutex;

use super::nodes::Nodes;
use super::{UNHURRIED, founding, owed};

/// Work that never ends.
#[derive(Default)]
pub(super) struct Upkeep(Mutex<FuturesUnordered<BoxFuture<'static, ()>>>);

impl Upkeep {
    /// What is to be done for these nodes; `quarantine` if nodes are admitted.
    pub(super) fn of(nodes: &Arc<Nodes>, quarantine: Option<bool>) -> Self {
        Self::doing(work(nodes, quarantine))
    }

    fn doing(work: Vec<BoxFuture<'static, ()>>) -> Self {
        Self(Mutex::new(work.into_iter().collect()))
    }

    /// Does it. Never returns.
    ///
    /// # Cancel safety
    /// What was begun goes on with the next call.
    pub(super) async fn run(&self) {
        let mut work = self.0.lock().await;
        while work.next().await.is_some() {}
        std::future::pending::<()>().await;
    }

    /// Does other work, and this as long as that takes. What stands still here may
    /// hold what the other needs; so
    /// whoever works while nobody listens has to see to this as well.
    pub(super) async fn beside<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = self.run() => {}
        }
        work.await
    }
}

/// A node that is away is not waited for, so somebody has to look whether it is
/// back and tell it what it is owed, and see to its standing if nodes are admitted.
fn work(nodes: &Arc<Nodes>, quarantine: Option<bool>) -> Vec<BoxFuture<'static, ()>> {
    let mut work: Vec<BoxFuture<'static, ()>> = Vec::new();
    for number in 0..nodes.all.len() {
        let nodes = nodes.clone();
        work.push(Box::pin(async move {
            owed::keep_settling(&nodes, &nodes.all[number]).await;
        }));
    }
    for number in 0..nodes.all.len() {
        let nodes = nodes.clone();
        work.push(Box::pin(async move {
            let node = &nodes.all[number];
            loop {
                node.lacks_scripts.notified().await;
                let _ = node.load(&nodes.scripts).await;
            }
        }));
    }
    if let Some(quarantine) = quarantine {
        let nodes = nodes.clone();
        work.push(Box::pin(async move {
            loop {
                nodes.to_settle.notified().await;
                founding::settle(&nodes, quarantine, UNHURRIED).await;
                tokio::time::sleep(UNHURRIED / 4).await;
            }
        }));
    }
    work
}

impl fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upkeep")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn what_stands_still_holds_up_nobody_who_works_beside_it() {
        let (needed, is_begun) = (Arc::new(Mutex::new(())), Arc::new(Notify::new()));
        let (half_made, begun) = (needed.clone(), is_begun.clone());
        let upkeep = Upkeep::doing(vec![Box::pin(async move {
            let held = half_made.lock().await;
            begun.notify_one();
            tokio::task::yield_now().await;
            drop(held);
        })]);
        tokio::select! {
            biased;
            () = is_begun.notified() => {}
            () = upkeep.run() => {}
        }
        assert!(needed.try_lock().is_err(), "it stands still too late");
        let limit = Duration::from_secs(10);
        let done = tokio::time::timeout(limit, upkeep.beside(needed.lock())).await;
        assert!(done.is_ok(), "what was held is held for good");
    }
}
