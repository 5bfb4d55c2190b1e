//! The lock as a condition of the user's own transaction.

use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_mysql::MySqlTransaction;

use super::MysqlEngine;
use super::fault::fault;
use super::inbox::Mine;
use super::line::guarded;
use super::pool::Lane;
use super::text::{column, name, ticket};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::{Guard, Lost};

/// Makes the transaction depend on the lock: until it ends, nobody else is
/// granted the lock, whatever becomes of this process and its lease. It has to
/// be on the server that keeps the lock.
///
/// Keep the guard until the transaction has ended; a release before that fails
/// and is repeated.
///
/// # Errors
/// `Lost` if the lock is not ours any more; roll the transaction back then.
/// `Unsupported` if the lock is in another store. Else what the server says.
///
/// # Cancel safety
/// The transaction may depend on the lock, or not.
pub async fn fence(guard: &Guard, transaction: &mut MySqlTransaction<'_>) -> Result<()> {
    guard.check()?;
    let hold = guard.hold();
    let doing = || format!("fence a transaction by {}", guard.name());
    let engine = hold.core().engine.as_any();
    let Some(engine) = engine.and_then(|any| any.downcast_ref::<MysqlEngine>()) else {
        let why = "the lock is not in a MySQL or MariaDB database";
        return Err(Error::new(ErrorKind::Unsupported, doing(), why));
    };
    // Two tasks of this process would share the row: before the next one has the
    // lock it must be gone.
    hold.bind();
    let mine = engine.inbox.claim(hold.claim().id);
    let mine = mine.and_then(|mine| Some((mine.held()?, mine)));
    let lost = || {
        let lost = Lost::Gone;
        Err(Error::new(ErrorKind::Lost(lost), doing(), lost.to_string()).on(&*engine.pool.label))
    };
    let Some((place, mine)) = mine else {
        return lost();
    };
    mine.is_fenced();
    // A locking read that finds nothing would lock the gap, and with it those who
    // come to wait: so it is made only if there is something to find.
    let stands = format!(
        "select 'stands' from {} where name = {} and seat = {place} and ticket = {}",
        engine.tables.claim,
        name(guard.name()),
        ticket(hold.claim().id),
    );
    let text = match mine.seat().0 {
        0 => guarded(&move_text(engine, &mine, &stands)),
        _ => stands.clone(),
    };
    let answer = engine.pool.ask_on(Lane::Aside, &text, doing).await?;
    let is_there = |row| column(row, 0).as_deref() == Some("stands");
    if !answer.rows.iter().any(is_there) {
        return lost();
    }
    mine.sits(place);
    // A locking read sees what is there now, whatever the transaction has seen
    // before. The row stands as long as the claim does, and cannot be deleted
    // while this transaction has it.
    let statement = AssertSqlSafe(format!("{stands} lock in share mode"));
    let rows = transaction.fetch_all(raw_sql(statement)).await;
    match rows {
        Ok(rows) if rows.is_empty() => lost(),
        Ok(_) => Ok(()),
        Err(error) => Err(fault(error, doing(), &engine.pool.label)),
    }
}

/// What gives the claim a row of its own and looks whether it stands. Twice is once.
fn move_text(engine: &MysqlEngine, mine: &Mine, stands: &str) -> String {
    format!(
        include_str!("sql/move.sql"),
        claim = engine.tables.claim,
        name = name(mine.claim.name.as_str()),
        ticket = ticket(mine.claim.id),
        stands = stands,
    )
}
