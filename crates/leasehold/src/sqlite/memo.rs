//! Memos, in a table of their own beside the layout.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::TOKENS_PER_GRANT;
use super::database::{Doing, Store};
use super::fault::Fault;
use super::queue::{self, END, Row};
use super::standing::holders;
use crate::clock;
use crate::engine::{ClaimRef, Memo, Noted, Reading};
use crate::error::Result;
use crate::fence::Token;

/// Writes the memo if the claim holds.
pub(super) async fn write(
    store: &Arc<Store>,
    claim: &ClaimRef,
    memo: &Memo,
    keep: Option<Duration>,
) -> Result<Noted> {
    let doing = Doing("write the memo of", Some(&claim.name));
    // Nobody else would see it, and the lease is over.
    if !store.is_in_place() {
        return Ok(Noted::NotHeld);
    }
    let (claim, memo) = (claim.clone(), memo.clone());
    let work =
        move |store: &Store, connection: &Connection| enter(store, connection, &claim, &memo, keep);
    let noted = store.run(doing, work).await?;
    // Unlike a claim it has to be there after a power loss. The transaction does
    // not wait for the disk itself: all others would wait with it.
    if noted == Noted::Written {
        store.sync_log(doing).await?;
    }
    Ok(noted)
}

fn enter(
    store: &Store,
    connection: &Connection,
    claim: &ClaimRef,
    memo: &Memo,
    keep: Option<Duration>,
) -> Result<Noted, Fault> {
    let write = store.begin(connection)?;
    // After the transaction began, so that who lives now cannot be taken over
    // before the commit.
    let now = clock::boot_time();
    let name = claim.name.as_str();
    let rows = queue::read(connection, name, END)?;
    let is_ours = |row: &Row| {
        let is_granted = memo.is_of(row.claim.order, TOKENS_PER_GRANT);
        row.ticket == claim.id && is_granted && !row.has_ended(now)
    };
    if !rows.iter().take(holders(&rows)).any(is_ours) {
        return Ok(Noted::NotHeld);
    }
    connection.execute_batch(include_str!("sql/memo_table.sql"))?;
    let (token, edition) = (memo.token.get().cast_signed(), memo.edition.cast_signed());
    // One that has ended does not count, and those of others go with it.
    sweep(connection, &store.boot)?;
    let mut insert = connection.prepare_cached(include_str!("sql/memo_write.sql"))?;
    // Not if a later edition is there: that one's end counts.
    if insert.execute((name, token, edition, &memo.bytes))? > 0 {
        end_after(connection, &store.boot, name, keep)?;
    }
    store.commit(write)?;
    Ok(Noted::Written)
}

/// Says when the memo ends, by the boot clock and, for the time after the next
/// boot, by the wall clock. While the machine runs, nobody who sets the wall clock
/// makes it end.
fn end_after(
    connection: &Connection,
    boot: &str,
    name: &str,
    keep: Option<Duration>,
) -> Result<(), Fault> {
    let Some(keep) = keep else {
        let mut remove = connection.prepare_cached("delete from memo_end where name = ?1")?;
        remove.execute([name])?;
        return Ok(());
    };
    let ends = (clock::boot_time() + keep).nanos().cast_signed();
    let wall_ends = nanos(clock::wall_time().saturating_add(keep));
    let mut insert = connection.prepare_cached(include_str!("sql/memo_end.sql"))?;
    insert.execute((name, boot, ends, wall_ends))?;
    Ok(())
}

/// Removes some of what has ended.
fn sweep(connection: &Connection, boot: &str) -> Result<(), Fault> {
    let mut find = connection.prepare_cached(include_str!("sql/memo_ended.sql"))?;
    let now = clock::boot_time().nanos().cast_signed();
    let found = find.query_map((boot, now, nanos(clock::wall_time())), |row| row.get(0))?;
    let names: Vec<String> = found.collect::<Result<_, _>>()?;
    for name in names {
        for table in ["memo", "memo_end"] {
            let remove = format!("delete from {table} where name = ?1");
            connection.prepare_cached(&remove)?.execute([&name])?;
        }
    }
    Ok(())
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The memo of a name. Reads only.
pub(super) fn read(connection: &Connection, boot: &str, name: &str) -> Result<Reading, Fault> {
    let now = clock::wall_time();
    let kept = match (
        has_table(connection, "memo")?,
        has_table(connection, "memo_end")?,
    ) {
        (true, false) => {
            let mut find = connection.prepare_cached(include_str!("sql/memo.sql"))?;
            find.query_row([name], memo_of).optional()?
        }
        (true, true) => {
            let mut find = connection.prepare_cached(include_str!("sql/memo_unended.sql"))?;
            let boot_now = clock::boot_time().nanos().cast_signed();
            find.query_row((name, boot, boot_now, nanos(now)), memo_of)
                .optional()?
        }
        (false, _) => None,
    };
    Ok(Reading::of(kept, Some(now)))
}

fn has_table(connection: &Connection, table: &str) -> Result<bool, Fault> {
    let has_table = "select exists (select 1 from sqlite_schema where name = ?1)";
    let mut find = connection.prepare_cached(has_table)?;
    Ok(find.query_row([table], |row| row.get(0))?)
}

fn memo_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Memo> {
    Ok(Memo {
        token: Token::new(row.get::<_, i64>(0)?.cast_unsigned()),
        edition: row.get::<_, i64>(1)?.cast_unsigned(),
        bytes: row.get(2)?,
    })
}
