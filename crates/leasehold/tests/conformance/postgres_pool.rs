//! One server for all cases of a store; each case has a schema of its own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Started;
use crate::postgres::Postgres;

pub(crate) static PLAIN: Pool = Pool::new(&[]);
pub(crate) static REPEATABLE_READ: Pool =
    Pool::new(&["default_transaction_isolation=repeatable read"]);
pub(crate) static SERIALIZABLE: Pool = Pool::new(&["default_transaction_isolation=serializable"]);

/// A server with these settings, once it is asked for.
pub(crate) struct Pool {
    settings: &'static [&'static str],
    server: Mutex<Option<(tempfile::TempDir, Postgres)>>,
    cases: AtomicUsize,
}

impl Pool {
    const fn new(settings: &'static [&'static str]) -> Self {
        Self {
            settings,
            server: Mutex::new(None),
            cases: AtomicUsize::new(0),
        }
    }

    pub(crate) fn take(&'static self) -> Started {
        let mut server = self.server.lock().expect("no case panics with it");
        let (_, server) = server.get_or_insert_with(|| {
            let folder = tempfile::tempdir().expect("there is room for a folder");
            let server = Postgres::start(folder.path(), self.settings);
            (folder, server)
        });
        let case = self.cases.fetch_add(1, Ordering::Relaxed);
        Started::at(format!("{}?schema=case{case}", server.url()))
    }
}

/// Ends all servers: statics are never dropped.
pub(crate) fn end() {
    for pool in [&PLAIN, &REPEATABLE_READ, &SERIALIZABLE] {
        pool.server.lock().expect("no case panics with it").take();
    }
}
