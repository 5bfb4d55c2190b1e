//! A ZooKeeper ensemble takes a second to start, so cases take turns on them,
//! each on one without nodes.

use std::sync::{Condvar, Mutex, MutexGuard};

use crate::Started;
use crate::zookeeper::Zookeeper;

pub(crate) static ONE: Pool = Pool::new(1);
pub(crate) static THREE: Pool = Pool::new(3);

/// How many servers run at once at most: each of them writes to the disk and
/// waits for it, and cases ask for answers within milliseconds.
const SERVERS: usize = 3;

/// Clusters of one kind.
pub(crate) struct Pool {
    servers: usize,
    clusters: Mutex<Clusters>,
    given_back: Condvar,
}

struct Clusters {
    /// Those that no case uses now.
    waiting: Vec<(tempfile::TempDir, Zookeeper)>,
    started: usize,
}

/// A cluster of the pool, given back when it is dropped.
struct Taken {
    pool: &'static Pool,
    zookeeper: Option<(tempfile::TempDir, Zookeeper)>,
}

impl Pool {
    const fn new(servers: usize) -> Self {
        Self {
            servers,
            clusters: Mutex::new(Clusters {
                waiting: Vec::new(),
                started: 0,
            }),
            given_back: Condvar::new(),
        }
    }

    pub(crate) fn take(&'static self) -> Started {
        let zookeeper = self.cluster();
        let url = zookeeper.1.url();
        // Given back also if it cannot be wiped: others wait for it.
        let taken = Taken {
            pool: self,
            zookeeper: Some(zookeeper),
        };
        if let Some((_, zookeeper)) = &taken.zookeeper {
            zookeeper.wipe();
        }
        Started {
            url,
            _server: Some(Box::new(taken)),
        }
    }

    /// One that waits, or a new one, or the next that is given back.
    fn cluster(&self) -> (tempfile::TempDir, Zookeeper) {
        let mut clusters = self.clusters();
        loop {
            if let Some(zookeeper) = clusters.waiting.pop() {
                return zookeeper;
            }
            if (clusters.started + 1) * self.servers <= SERVERS {
                clusters.started += 1;
                break;
            }
            let waited = self.given_back.wait(clusters);
            clusters = waited.expect("no case panics with it");
        }
        drop(clusters);
        let folder = tempfile::tempdir().expect("there is room for a folder");
        // A stamp is spoilt when the server removes the empty lock, which it looks for
        // once a minute; wiping does that here.
        let never = "-Dznode.container.checkIntervalMs=86400000";
        // A ttl that is longer than a case may take is cut to four seconds else.
        let long = "maxSessionTimeout=120000\n";
        let zookeeper = Zookeeper::start_with(folder.path(), self.servers, long, &[never]);
        (folder, zookeeper)
    }

    fn clusters(&self) -> MutexGuard<'_, Clusters> {
        self.clusters.lock().expect("no case panics with it")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let (Some(zookeeper), Ok(mut clusters)) =
            (self.zookeeper.take(), self.pool.clusters.lock())
        {
            clusters.waiting.push(zookeeper);
            self.pool.given_back.notify_one();
        }
    }
}

/// Ends all servers: statics are never dropped.
pub(crate) fn end() {
    for pool in [&ONE, &THREE] {
        pool.clusters().waiting.clear();
    }
}
