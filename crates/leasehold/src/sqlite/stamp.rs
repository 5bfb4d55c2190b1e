//! Marks of locks that have had no writer since, in a table of their own beside
//! the layout. A stamp does not outlive the boot, which it names, so what a power
//! loss undoes matters to nobody.

use rusqlite::{Connection, OptionalExtension};

use super::database::Store;
use super::fault::Fault;
use crate::engine::Mark;
use crate::random::random_u64;

/// The lock's mark, made if it is not there; none if there is a writer.
pub(super) fn stamp(
    store: &Store,
    connection: &Connection,
    name: &str,
) -> Result<Option<Mark>, Fault> {
    // Mostly it is there, and reading is enough.
    if let Some(mark) = read(store, connection, name)? {
        return Ok(Some(mark));
    }
    let write = store.begin(connection)?;
    connection.execute_batch(include_str!("sql/stamp_table.sql"))?;
    let fresh = (random_u64() >> 1).cast_signed();
    let mut insert = connection.prepare_cached(include_str!("sql/stamp_write.sql"))?;
    insert.execute((name, fresh))?;
    let mark = read(store, connection, name)?;
    store.commit(write)?;
    Ok(mark)
}

fn read(store: &Store, connection: &Connection, name: &str) -> Result<Option<Mark>, Fault> {
    let has_table = "select exists (select 1 from sqlite_schema where name = 'stamp')";
    let has_table: bool = connection
        .prepare_cached(has_table)?
        .query_row([], |row| row.get(0))?;
    if !has_table {
        return Ok(None);
    }
    let mut select = connection.prepare_cached(include_str!("sql/stamp.sql"))?;
    let mark = select.query_row([name], |row| row.get::<_, i64>(0));
    let named = |mark| Mark(format!("{} {mark}", store.boot));
    Ok(mark.optional()?.map(named))
}
