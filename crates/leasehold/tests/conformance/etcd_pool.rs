//! An etcd cluster takes a second to start, so cases take turns on them, each
//! on one without keys.

use std::sync::{Condvar, Mutex, MutexGuard};

use crate::Started;
use crate::etcd::{Etcd, Version};

pub(crate) static ONE: Pool = Pool::new(Version::System, 1);
pub(crate) static THREE: Pool = Pool::new(Version::System, 3);
pub(crate) static ONE_35: Pool = Pool::new(Version::Etcd35, 1);

/// How many servers run at once at most: each of them writes to the disk and
/// waits for it, and cases ask for answers within milliseconds.
const SERVERS: usize = 6;

/// Clusters of one kind.
pub(crate) struct Pool {
    version: Version,
    members: usize,
    clusters: Mutex<Clusters>,
    given_back: Condvar,
}

struct Clusters {
    /// Those that no case uses now.
    waiting: Vec<(tempfile::TempDir, Etcd)>,
    started: usize,
}

/// A cluster of the pool, given back when it is dropped.
struct Taken {
    pool: &'static Pool,
    etcd: Option<(tempfile::TempDir, Etcd)>,
}

impl Pool {
    const fn new(version: Version, members: usize) -> Self {
        Self {
            version,
            members,
            clusters: Mutex::new(Clusters {
                waiting: Vec::new(),
                started: 0,
            }),
            given_back: Condvar::new(),
        }
    }

    pub(crate) fn take(&'static self) -> Started {
        let etcd = self.cluster();
        etcd.1.wipe();
        Started {
            url: etcd.1.url(),
            _server: Some(Box::new(Taken {
                pool: self,
                etcd: Some(etcd),
            })),
        }
    }

    /// One that waits, or a new one, or the next that is given back.
    fn cluster(&self) -> (tempfile::TempDir, Etcd) {
        let mut clusters = self.clusters();
        loop {
            if let Some(etcd) = clusters.waiting.pop() {
                return etcd;
            }
            if (clusters.started + 1) * self.members <= SERVERS {
                clusters.started += 1;
                break;
            }
            let waited = self.given_back.wait(clusters);
            clusters = waited.expect("no case panics with it");
        }
        drop(clusters);
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let etcd = Etcd::start_with(folder.path(), self.version, self.members, &[]);
        (folder, etcd)
    }

    fn clusters(&self) -> MutexGuard<'_, Clusters> {
        self.clusters.lock().expect("no case panics with it")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let (Some(etcd), Ok(mut clusters)) = (self.etcd.take(), self.pool.clusters.lock()) {
            clusters.waiting.push(etcd);
            self.pool.given_back.notify_one();
        }
    }
}

/// Ends all servers: statics are never dropped.
pub(crate) fn end() {
    for pool in [&ONE, &THREE, &ONE_35] {
        pool.clusters().waiting.clear();
    }
}
