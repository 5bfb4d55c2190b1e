//! What has to go on beside the session's requests. Engines do not spawn: the
//! session's own task runs these beside its renewals.

use std::fmt;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Mutex;

/// Work that never ends.
#[derive(Default)]
pub(super) struct Upkeep(Mutex<FuturesUnordered<BoxFuture<'static, ()>>>);

impl Upkeep {
    pub(super) fn of(work: Vec<BoxFuture<'static, ()>>) -> Self {
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
}

impl fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upkeep")
    }
}
