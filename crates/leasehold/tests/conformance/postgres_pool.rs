//! One server for all cases of a store. Cases take turns on its schemas, each
//! on one with empty tables: making tables is hard on everybody else there.

use std::sync::{Mutex, PoisonError};

use crate::Started;
use crate::postgres::{Postgres, wait_for};
use crate::turns::{Turn, Turns};

pub(crate) static PLAIN: Pool = Pool::new(&[]);
pub(crate) static SESSION: Pool = Pool {
    settings: &["default_transaction_isolation=serializable"],
    is_of_session: true,
    server: Mutex::new(None),
};
pub(crate) static REPEATABLE_READ: Pool =
    Pool::new(&["default_transaction_isolation=repeatable read"]);
pub(crate) static SERIALIZABLE: Pool = Pool::new(&["default_transaction_isolation=serializable"]);

/// How many cases run at once, whichever server they use: each of their requests
/// is work for a process of the server, and cases ask for answers within
/// milliseconds.
static TURNS: Turns = Turns::new(4);

/// A server with these settings, once it is asked for.
pub(crate) struct Pool {
    settings: &'static [&'static str],
    /// Whether locks are of `mode=session`.
    is_of_session: bool,
    server: Mutex<Option<Server>>,
}

struct Server {
    postgres: Postgres,
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
    const fn new(settings: &'static [&'static str]) -> Self {
        Self {
            settings,
            is_of_session: false,
            server: Mutex::new(None),
        }
    }

    pub(crate) fn take(&'static self) -> Started {
        let turn = TURNS.take();
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let server = server.get_or_insert_with(|| {
            let folder = tempfile::tempdir().expect("there is room for a folder");
            Server {
                postgres: Postgres::start(folder.path(), self.settings),
                _folder: folder,
                waiting: Vec::new(),
                made: 0,
            }
        });
        let schema = server.waiting.pop();
        let schema = match schema {
            Some(schema) => {
                let tables = match self.is_of_session {
                    true => &["line", "note", "eviction"],
                    false => &["claim", "session", "eviction"],
                };
                let tables: Vec<_> = tables
                    .iter()
                    .map(|table| format!("schema{schema}.{table}"))
                    .collect();
                empty(&server.postgres, &tables.join(", "));
                schema
            }
            None => {
                server.made += 1;
                server.made
            }
        };
        let mode = match self.is_of_session {
            // One case waits for a hundred names in one session.
            true => "&mode=session&connections=120",
            false => "",
        };
        Started {
            url: format!("{}?schema=schema{schema}{mode}", server.postgres.url()),
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

/// Empties tables. A request of the last case may still be under way in the
/// server, and has its tables in another order.
fn empty(postgres: &Postgres, tables: &str) {
    wait_for("tables that nobody uses", || {
        match postgres.try_sql(&format!("truncate {tables}")) {
            Ok(_) => Some(()),
            Err(error) if error.contains("deadlock detected") => None,
            Err(error) => panic!("{tables}: {error}"),
        }
    });
}

/// Ends all servers: statics are never dropped.
pub(crate) fn end() {
    for pool in [&PLAIN, &REPEATABLE_READ, &SERIALIZABLE, &SESSION] {
        let server = pool.server.lock();
        server.unwrap_or_else(PoisonError::into_inner).take();
    }
}
