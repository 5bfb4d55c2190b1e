//! The raw floor: the barest lease lock that the same store gives through the
//! same client, without leasehold. One conditional upsert takes it, one
//! conditional update gives it back; no queue, no fairness, no token beyond a
//! counter, no watchdog.

use std::path::Path;

use rusqlite::{Connection, params};

/// The bare statements on an SQLite file of the same settings.
#[derive(Debug)]
pub(crate) struct Floor {
    connection: Connection,
    cycles: i64,
}

impl Floor {
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(
            "pragma page_size = 1024; pragma journal_mode = wal; pragma synchronous = normal;
             create table if not exists lease (
                 name text primary key, holder integer, token integer not null,
                 expires integer not null
             ) strict, without rowid;",
        )?;
        Ok(Self {
            connection,
            cycles: 0,
        })
    }

    /// Takes the lock and gives it back.
    pub(crate) fn cycle(&mut self, name: &str) -> rusqlite::Result<()> {
        self.cycles += 1;
        let holder = self.cycles;
        let _token: i64 = self
            .connection
            .prepare_cached(
                "insert into lease values (?1, ?2, 1, ?3 + 10000)
                 on conflict (name) do update
                     set holder = excluded.holder, token = token + 1, expires = excluded.expires
                     where holder is null or expires < ?3
                 returning token",
            )?
            .query_row(params![name, holder, holder], |row| row.get(0))?;
        self.connection
            .prepare_cached("update lease set holder = null where name = ?1 and holder = ?2")?
            .execute(params![name, holder])?;
        Ok(())
    }
}
