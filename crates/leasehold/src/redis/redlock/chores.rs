//! What is still to be done for the nodes while nobody waits for it. Engines do
//! not spawn: the session's own task runs these beside its renewals.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;

use crate::redis::lock;

/// What is still to be done.
#[derive(Default)]
pub(super) struct Chores {
    /// Not begun yet.
    new: Mutex<Vec<BoxFuture<'static, ()>>>,
    /// Rung when there is a new one.
    bell: Notify,
    begun: tokio::sync::Mutex<FuturesUnordered<BoxFuture<'static, ()>>>,
    count: AtomicUsize,
}

impl Chores {
    pub(super) fn add(&self, chore: impl Future<Output = ()> + Send + 'static) {
        self.count.fetch_add(1, Relaxed);
        lock(&self.new).push(Box::pin(chore));
        self.bell.notify_one();
    }

    /// Does them. Never returns.
    ///
    /// # Cancel safety
    /// What was begun goes on with the next call.
    pub(super) async fn run(&self) {
        let mut begun = self.begun.lock().await;
        loop {
            begun.extend(lock(&self.new).drain(..));
            tokio::select! {
                Some(()) = begun.next() => {
                    self.count.fetch_sub(1, Relaxed);
                }
                () = self.bell.notified() => {}
            }
        }
    }

    /// Returns when all are done, if somebody does them.
    pub(super) async fn finish(&self) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let mut begun = self.begun.lock().await;
        begun.extend(lock(&self.new).drain(..));
        while begun.next().await.is_some() {
            self.count.fetch_sub(1, Relaxed);
            begun.extend(lock(&self.new).drain(..));
        }
    }
}

impl fmt::Debug for Chores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chores({})", self.count.load(Relaxed))
    }
}
