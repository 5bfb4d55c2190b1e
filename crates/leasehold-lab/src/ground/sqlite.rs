//! A file: it has no server to break.

use std::path::{Path, PathBuf};

use super::{Contents, Ground};
use crate::story::Error;

#[derive(Debug)]
struct Sqlite(PathBuf);

pub(super) fn start(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    Ok(Box::new(Sqlite(folder.join("locks.db"))))
}

/// All rows, by the name of their table.
fn rows(file: &Path) -> rusqlite::Result<Vec<String>> {
    let database = rusqlite::Connection::open(file)?;
    let mut tables = database.prepare("select name from sqlite_master where type = 'table'")?;
    let tables = tables.query_map([], |row| row.get::<_, String>(0))?;
    let mut rows = Vec::new();
    for table in tables.collect::<rusqlite::Result<Vec<_>>>()? {
        let count = format!("select count(*) from \"{table}\"");
        let count: i64 = database.query_row(&count, [], |row| row.get(0))?;
        rows.extend((0..count).map(|_| table.clone()));
    }
    Ok(rows)
}

impl Ground for Sqlite {
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    fn url(&self, _: &[u16], ttl_millis: u64) -> String {
        format!("sqlite:{}?ttl={ttl_millis}ms", self.0.display())
    }

    fn contents(&self) -> Result<Contents, String> {
        let rows = rows(&self.0).map_err(|error| error.to_string())?;
        Ok(Contents::of(rows))
    }

    fn kill(&mut self, _: usize) {}

    fn start_again(&mut self, _: usize) {}

    fn pause(&mut self, _: usize) {}

    fn resume(&mut self, _: usize) {}
}
