//! The lock as a condition of the user's own transaction.

use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_mysql::MySqlTransaction;

use super::MysqlEngine;
use super::fault::fault;
use super::text::{name, ticket};
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
    let place = engine
        .inbox
        .claim(hold.claim().id)
        .and_then(|mine| mine.held());
    let lost = || {
        let lost = Lost::Gone;
        Err(Error::new(ErrorKind::Lost(lost), doing(), lost.to_string()).on(&*engine.pool.label))
    };
    let Some(place) = place else {
        return lost();
    };
    // A locking read sees what is there now, whatever the transaction has seen
    // before. The row stands as long as the claim does, and cannot be deleted
    // while this transaction has it.
    let statement = format!(
        "select 1 from {} where name = {} and place = {place} and ticket = {} lock in share mode",
        engine.tables.claim,
        name(guard.name()),
        ticket(hold.claim().id),
    );
    let rows = transaction
        .fetch_all(raw_sql(AssertSqlSafe(statement)))
        .await;
    match rows {
        Ok(rows) if rows.is_empty() => lost(),
        Ok(_) => Ok(()),
        Err(error) => Err(fault(error, doing(), &engine.pool.label)),
    }
}
