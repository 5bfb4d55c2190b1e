//! Nodes of our own, and what to look for on them.

use std::time::{Duration, Instant};

use leasehold::{Guard, Mutex, Session};
use redis::Value;
use tempfile::TempDir;

use testbed::redis::{Fleet, text};

/// How long anything may take that must come.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// What makes a node come back by itself after a restart.
pub(crate) const ALWAYS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// So many servers that know nothing of each other.
pub(crate) struct Scene {
    pub(crate) fleet: Fleet,
    _folder: TempDir,
}

impl Scene {
    pub(crate) fn start(count: usize, settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            fleet: Fleet::start_with(folder.path(), count, settings),
            _folder: folder,
        }
    }

    pub(crate) fn url(&self, options: &str) -> String {
        format!("{}?{options}", self.fleet.url())
    }

    pub(crate) async fn session(&self, options: &str) -> Session {
        leasehold::connect(&self.url(options)).await.unwrap()
    }

    /// The node's address as `redlock::status` has it.
    pub(crate) fn node(&self, number: usize) -> String {
        format!("127.0.0.1:{}", self.fleet.servers[number].port())
    }

    /// Who has the lock on this node.
    pub(crate) fn value(&self, number: usize, name: &str) -> Option<String> {
        match self.fleet.servers[number].command(&["GET", name]) {
            Value::Nil => None,
            value => Some(text(&value)),
        }
    }

    /// On how many nodes the lock is anybody's.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.count_from(0, name)
    }

    /// The same from this node on: those before may be down.
    pub(crate) fn count_from(&self, first: usize, name: &str) -> usize {
        let nodes = first..self.fleet.servers.len();
        nodes
            .filter(|&node| self.value(node, name).is_some())
            .count()
    }

    /// Tells every node the same.
    pub(crate) fn tell_all(&self, words: &[&str]) {
        for server in &self.fleet.servers {
            server.command(words);
        }
    }
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {LONG:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Fails if it takes too long.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(LONG, work).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {LONG:?}"))
}

/// The lock, which is free. A node of a busy machine may answer too late to count; what
/// is left on one, if anything, is there for longer than this waits.
pub(crate) async fn free(mutex: &Mutex) -> Guard {
    let deadline = Instant::now() + LONG / 3;
    loop {
        match mutex.try_lock().await {
            Ok(Some(guard)) => return guard,
            tried => assert!(Instant::now() < deadline, "{tried:?}"),
        }
    }
}
