//! One database server for all cases of a store. Cases take turns on its schemas, each on
//! one with empty tables: making tables is hard on everything else there.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::Started;
use crate::turns::{Turn, Turns};

/// How many cases run at once, whichever server they use.
static TURNS: Turns = Turns::new(12);

/// A database server, as far as schemas go.
pub(crate) trait Database: Sized + Send + 'static {
    fn start(folder: &Path, settings: &[&str]) -> Self;
    /// The URL of a schema, which the first session makes.
    fn url(&self, schema: usize) -> String;
    /// Empties these tables of a schema.
    fn wipe(&self, schema: usize, tables: &[&str]);
}

/// A server with these settings, once a case asks for it.
pub(crate) struct Schemas<D: 'static> {
    settings: &'static [&'static str],
    /// What is added to the URL.
    options: &'static str,
    tables: &'static [&'static str],
    server: Mutex<Option<Server<D>>>,
}

struct Server<D> {
    database: D,
    _folder: TempDir,
    /// The schemas that no case uses now.
    idle: Vec<usize>,
    made: usize,
}

/// A schema of a server, given back when it is dropped.
struct Lent<D: Database> {
    schemas: &'static Schemas<D>,
    schema: usize,
    _turn: Turn,
}

impl<D: Database> Schemas<D> {
    pub(crate) const fn new(
        settings: &'static [&'static str],
        options: &'static str,
        tables: &'static [&'static str],
    ) -> Self {
        Self {
            settings,
            options,
            tables,
            server: Mutex::new(None),
        }
    }

    /// A schema that cannot be emptied is not used again.
    pub(crate) fn take(&'static self) -> Started {
        let turn = TURNS.take();
        let mut server = self.server();
        let server = server.get_or_insert_with(|| {
            let folder = tempfile::tempdir().expect("there is room for a folder");
            Server {
                database: D::start(folder.path(), self.settings),
                _folder: folder,
                idle: Vec::new(),
                made: 0,
            }
        });
        let schema = match server.idle.pop() {
            Some(schema) => {
                server.database.wipe(schema, self.tables);
                schema
            }
            None => {
                server.made += 1;
                server.made
            }
        };
        let url = format!("{}{}", server.database.url(schema), self.options);
        Started {
            url,
            _server: Some(Box::new(Lent {
                schemas: self,
                schema,
                _turn: turn,
            })),
        }
    }

    /// Ends the server: statics are never dropped.
    pub(crate) fn end(&self) {
        self.server().take();
    }

    fn server(&self) -> MutexGuard<'_, Option<Server<D>>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Database> Drop for Lent<D> {
    fn drop(&mut self) {
        if let Some(server) = &mut *self.schemas.server() {
            server.idle.push(self.schema);
        }
    }
}
