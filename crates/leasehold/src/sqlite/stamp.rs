//! Marks of locks that have had no writer since, in a table of their own beside
//! the layout. A stamp does not outlive the boot, which it names, so what a power
//! loss undoes matters to nobody. A mark begins with the hour it was made in, so
//! that old ones can be told and swept; whose clock was wrong loses a mark early.

use rusqlite::{Connection, OptionalExtension};

use super::database::Store;
use super::fault::Fault;
use crate::clock::wall_time;
use crate::engine::Mark;
use crate::random::random_u64;

/// How many bits of a mark are random; those before it are the hour since 1970.
const RANDOM: u32 = 43;
/// After how many hours a mark is old.
const DAY: u64 = 25;
/// How many marks are made for one look at the old ones.
const SELDOM: u64 = 16;

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
    let hour = wall_time().as_secs() / 3600;
    let fresh = first_of(hour) + (random_u64() >> (64 - RANDOM)).cast_signed();
    let mut insert = connection.prepare_cached(include_str!("sql/stamp_write.sql"))?;
    insert.execute((name, fresh))?;
    if random_u64().is_multiple_of(SELDOM) {
        let mut sweep = connection.prepare_cached(include_str!("sql/stamp_sweep.sql"))?;
        sweep.execute([first_of(hour.saturating_sub(DAY))])?;
    }
    let mark = read(store, connection, name)?;
    store.commit(write)?;
    Ok(mark)
}

/// The smallest mark of an hour.
fn first_of(hour: u64) -> i64 {
    (hour << RANDOM).cast_signed()
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
