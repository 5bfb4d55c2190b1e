//! The lock as a condition of the user's own transaction.

use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_postgres::PgTransaction;

use super::PostgresEngine;
use super::fault::{code, fault};
use super::text::{quoted, ticket};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::{Guard, Lost};

/// Makes the transaction depend on the lock: until it ends, nobody else is
/// granted the lock, whatever becomes of this process and its lease. It has to
/// be in the database that keeps the lock.
///
/// Keep the guard until the transaction has ended; a release before that waits
/// for it.
///
/// # Errors
/// `Lost` if the lock is not ours any more; roll the transaction back then.
/// `Unsupported` if the lock is in another store. Else what the server says.
///
/// # Cancel safety
/// The transaction may depend on the lock, or not.
pub async fn fence(guard: &Guard, transaction: &mut PgTransaction<'_>) -> Result<()> {
    guard.check()?;
    let hold = guard.hold();
    let doing = || format!("fence a transaction by {}", guard.name());
    let engine = hold.core().engine.as_any();
    let Some(engine) = engine.and_then(|any| any.downcast_ref::<PostgresEngine>()) else {
        let why = "the lock is no row of a PostgreSQL database";
        return Err(Error::new(ErrorKind::Unsupported, doing(), why));
    };
    // Two tasks of this process would share the row: before the next one has the
    // lock it must be gone.
    hold.bind();
    // The row stands as long as the claim does, and cannot be deleted while this
    // transaction has it.
    let statement = format!(
        "select from {}.claim where name = {} and ticket = {} for key share",
        engine.schema,
        quoted(guard.name()),
        ticket(hold.claim().id),
    );
    let rows = transaction
        .fetch_all(raw_sql(AssertSqlSafe(statement)))
        .await;
    let is_ours = match rows {
        Ok(rows) => !rows.is_empty(),
        // It was deleted after a transaction of a stricter level began.
        Err(error) if code(&error) == Some("40001") => false,
        Err(error) => return Err(fault(error, doing(), &engine.pool.label)),
    };
    if is_ours {
        return Ok(());
    }
    let lost = Lost::Gone;
    Err(Error::new(ErrorKind::Lost(lost), doing(), lost.to_string()).on(&*engine.pool.label))
}
