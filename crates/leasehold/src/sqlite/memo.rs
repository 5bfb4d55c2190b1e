//! Memos, in a table of their own beside the layout.

use std::sync::Arc;

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
pub(super) async fn write(store: &Arc<Store>, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
    let doing = Doing("write the memo of", Some(&claim.name));
    // Nobody else would see it, and the lease is over.
    if !store.is_in_place() {
        return Ok(Noted::NotHeld);
    }
    let (claim, memo) = (claim.clone(), memo.clone());
    let work =
        move |store: &Store, connection: &Connection| enter(store, connection, &claim, &memo);
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
    let mut insert = connection.prepare_cached(include_str!("sql/memo_write.sql"))?;
    insert.execute((name, token, edition, &memo.bytes))?;
    store.commit(write)?;
    Ok(Noted::Written)
}

/// The memo of a name. Reads only.
pub(super) fn read(connection: &Connection, name: &str) -> Result<Reading, Fault> {
    let has_table = "select exists (select 1 from sqlite_schema where name = 'memo')";
    let has_table = connection
        .prepare_cached(has_table)?
        .query_row([], |row| row.get(0))?;
    let kept = match has_table {
        true => connection
            .prepare_cached(include_str!("sql/memo.sql"))?
            .query_row([name], |row| {
                Ok(Memo {
                    token: Token::new(row.get::<_, i64>(0)?.cast_unsigned()),
                    edition: row.get::<_, i64>(1)?.cast_unsigned(),
                    bytes: row.get(2)?,
                })
            })
            .optional()?,
        false => None,
    };
    Ok(Reading::of(kept, Some(clock::wall_time())))
}
