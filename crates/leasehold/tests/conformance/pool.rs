//! Stores of many servers take seconds to start, so cases take turns on them,
//! each on empty ones.

use std::sync::Mutex;

use crate::Started;
use crate::server::{Cluster, Fleet, RedisServer, Sentinel};

pub(crate) static SENTINELS: Pool<Sentinel> = Pool(Mutex::new(Vec::new()));
pub(crate) static CLUSTERS: Pool<Cluster> = Pool(Mutex::new(Vec::new()));
pub(crate) static FLEETS: Pool<Fleet> = Pool(Mutex::new(Vec::new()));

/// Stores that no case uses now.
pub(crate) struct Pool<T: 'static>(Mutex<Vec<(tempfile::TempDir, T)>>);

/// A store of the pool, given back when it is dropped.
struct Taken<T: Pooled> {
    store: Option<(tempfile::TempDir, T)>,
}

pub(crate) trait Pooled: Sized + Send + 'static {
    fn start(folder: &std::path::Path) -> Self;
    fn url(&self) -> String;
    /// The servers that take writes.
    fn masters(&self) -> Vec<&RedisServer>;
    fn pool() -> &'static Pool<Self>;
}

impl<T: Pooled> Pool<T> {
    pub(crate) fn take(&self) -> Started {
        let waiting = self.0.lock().expect("no case panics with it").pop();
        let store = waiting.unwrap_or_else(|| {
            let folder = tempfile::tempdir().expect("there is room for a folder");
            let store = T::start(folder.path());
            (folder, store)
        });
        for server in store.1.masters() {
            server.command(&["FLUSHALL"]);
        }
        Started {
            url: store.1.url(),
            _server: Some(Box::new(Taken { store: Some(store) })),
        }
    }
}

impl<T: Pooled> Drop for Taken<T> {
    fn drop(&mut self) {
        if let (Some(store), Ok(mut pool)) = (self.store.take(), T::pool().0.lock()) {
            pool.push(store);
        }
    }
}

/// Ends all servers: statics are never dropped.
pub(crate) fn end() {
    SENTINELS.0.lock().expect("no case panics with it").clear();
    CLUSTERS.0.lock().expect("no case panics with it").clear();
    FLEETS.0.lock().expect("no case panics with it").clear();
}

impl Pooled for Sentinel {
    fn start(folder: &std::path::Path) -> Self {
        Self::start(folder, &[])
    }
    fn url(&self) -> String {
        self.url()
    }
    fn masters(&self) -> Vec<&RedisServer> {
        vec![self.primary()]
    }
    fn pool() -> &'static Pool<Self> {
        &SENTINELS
    }
}

impl Pooled for Cluster {
    fn start(folder: &std::path::Path) -> Self {
        Self::start(folder)
    }
    fn url(&self) -> String {
        self.url()
    }
    fn masters(&self) -> Vec<&RedisServer> {
        self.servers.iter().collect()
    }
    fn pool() -> &'static Pool<Self> {
        &CLUSTERS
    }
}

impl Pooled for Fleet {
    fn start(folder: &std::path::Path) -> Self {
        Self::start(folder, 5)
    }
    fn url(&self) -> String {
        self.url()
    }
    fn masters(&self) -> Vec<&RedisServer> {
        self.servers.iter().collect()
    }
    fn pool() -> &'static Pool<Self> {
        &FLEETS
    }
}
