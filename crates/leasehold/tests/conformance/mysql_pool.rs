//! One server for all cases of a store. Cases take turns on its schemas, each
//! on one with empty tables: making tables is hard on everybody else there.

use std::sync::{Mutex, PoisonError};

use crate::Started;
use crate::mysql::Mysql;
use crate::turns::{Turn, Turns};

pub(crate) static PLAIN: Pool = Pool::new(&["transaction-isolation=READ-COMMITTED"], "");
pub(crate) static REPEATABLE_READ: Pool = Pool::new(
    &["transaction-isolation=REPEATABLE-READ", "autocommit=0"],
    "",
);
pub(crate) static SERIALIZABLE: Pool = Pool::new(&["transaction-isolation=SERIALIZABLE"], "");
pub(crate) static SESSION: Pool = Pool::new(&[], "&mode=session");

/// How many cases run at once, whichever server they use: cases ask for answers
/// within milliseconds.
static TURNS: Turns = Turns::new(4);

/// A server with these settings, once it is asked for.
pub(crate) struct Pool {
    settings: &'static [&'static str],
    options: &'static str,
    server: Mutex<Option<Server>>,
}

struct Server {
    mysql: Mysql,
    _folder: tempfile::TempDir,
    /// The schemas that no case uses now.
    waiting: Vec<usize>,
    made: usize,
}

/// A schema of the pool, given back when it is dropped.
struct Taken {
    pool: &'static Pool,
    schema: usize,
    _turn: Turn,
}

impl Pool {
    const fn new(settings: &'static [&'static str], options: &'static str) -> Self {
        Self {
            settings,
            options,
            server: Mutex::new(None),
        }
    }

    pub(crate) fn take(&'static self) -> Started {
        let turn = TURNS.take();
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let server = server.get_or_insert_with(|| {
            let folder = tempfile::tempdir().expect("there is room for a folder");
            Server {
                mysql: Mysql::start(folder.path(), self.settings),
                _folder: folder,
                waiting: Vec::new(),
                made: 0,
            }
        });
        let schema = server.waiting.pop();
        let schema = match schema {
            Some(schema) => {
                let tables = ["claim", "session", "eviction"];
                let wipe = tables.map(|table| format!("delete from schema{schema}_{table}"));
                server.mysql.sql(&wipe.join("; "));
                schema
            }
            None => {
                server.made += 1;
                server.made
            }
        };
        Started {
            url: format!(
                "{}?schema=schema{schema}{}",
                server.mysql.url(),
                self.options
            ),
            _server: Some(Box::new(Taken {
                pool: self,
                schema,
                _turn: turn,
            })),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Ok(mut server) = self.pool.server.lock()
            && let Some(server) = &mut *server
        {
            server.waiting.push(self.schema);
        }
    }
}

/// Ends all servers: statics are never dropped.
pub(crate) fn end() {
    for pool in [&PLAIN, &REPEATABLE_READ, &SERIALIZABLE, &SESSION] {
        let server = pool.server.lock();
        server.unwrap_or_else(PoisonError::into_inner).take();
    }
}
