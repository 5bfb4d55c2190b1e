//! Parts of a database that refuse a stale holder, inside the user's own
//! transactions, over `sqlx`.
//!
//! [`FencedSql`] keeps a mark in a row of a table of its own, for all that is
//! read and written in the same transaction. [`FenceColumns`] keeps it in two
//! columns of the user's table, for one row.
//!
//! Naming the mark and comparing is not enough: unless its row is locked to the
//! end of the transaction, a newer holder can come between the look and the
//! commit. So each of these statements writes, and waits for whoever has written
//! before.

mod columns;
mod dialect;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlite;

use sqlx_core::database::Database;
use sqlx_core::transaction::{Transaction, TransactionManager as _};

pub use columns::FenceColumns;
pub(crate) use dialect::Sort;
use dialect::{Dialect, Row, known, make, trouble};

use super::{Fence, Policy, Stale, Token, access};
use crate::error::{Error, ErrorKind, Result};

/// As long as the shortest column of the table.
const LONGEST_RESOURCE: usize = 255;

/// A database of `sqlx` that can keep marks: PostgreSQL (feature `postgres`),
/// MySQL and MariaDB (feature `mysql`), SQLite (feature `sqlx-sqlite`).
pub trait FenceDatabase: Dialect {}

impl<DB: Dialect> FenceDatabase for DB {}

/// Part of a database of which only the newest holder reads and writes.
///
/// ```no_run
/// # use sqlx_core as sqlx;
/// # use sqlx::query::query;
/// # async fn show(guard: &leasehold::Guard, pool: leasehold::postgres::PgPool)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let accounts = leasehold::fence::FencedSql::new("accounts");
/// let mut transaction = pool.begin().await?;
/// let claimed = accounts.claim(&mut transaction, guard.fence()).await?; // before anything is read
/// query("update account set balance = balance - 5 where id = 17")
///     .execute(&mut *transaction)
///     .await?;
/// transaction.commit().await?;
///
/// let mut transaction = pool.begin().await?;
/// claimed.check(&mut transaction).await?; // `Stale` if another has claimed it since
/// query("update account set balance = balance + 5 where id = 18")
///     .execute(&mut *transaction)
///     .await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// One resource stands for all rows that a holder relies on: a transaction that
/// claims `accounts` may read and write all accounts.
///
/// It is right under read committed, repeatable read and serializable, if the
/// claim or the check is the first thing that a transaction does. The isolation
/// levels above read committed may end in `Unavailable` because another
/// transaction was in the way: roll back and begin again, as always with them.
#[derive(Debug, Clone)]
pub struct FencedSql {
    resource: String,
    policy: Policy,
}

impl FencedSql {
    /// A resource by any name of up to 255 bytes.
    pub fn new(resource: impl Into<String>) -> Self {
        Self {
            resource: resource.into(),
            policy: Policy::default(),
        }
    }

    /// Which claims are accepted. Everyone who uses the resource must agree.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The statements that make the table for marks, `leasehold_fence`. They may
    /// be run again.
    pub fn table<DB: FenceDatabase>() -> &'static str {
        DB::TABLE
    }

    /// Makes the table unless it is there. Not for use inside a transaction:
    /// some databases end it when a table is made.
    ///
    /// # Errors
    /// `Config` if there is a table of that name and another version; `Denied`;
    /// `Unavailable`.
    ///
    /// # Cancel safety
    /// The table may have been made.
    pub async fn create_table<DB: FenceDatabase>(connection: &mut DB::Connection) -> Result<()> {
        make::<DB>(connection).await
    }

    /// Raises the mark, in this transaction. Nothing may have been read in it
    /// before. Until it ends all others wait who claim or check the resource;
    /// if it is rolled back, the mark is, too.
    ///
    /// It holds for this transaction, as the database sees it. Roll back after
    /// any error of any statement in it, and repeat the whole transaction, never
    /// one statement: on MySQL and SQLite some errors (a deadlock, a full disk)
    /// end the transaction, and what follows is done without the claim. On MySQL
    /// so do statements that make, change or empty tables (`truncate`).
    ///
    /// # Errors
    /// `Stale` if another has come later; `Usage` if the lock has no ordered
    /// token, or one above 2^63, or if this is a savepoint inside a transaction;
    /// `Config` if the table is missing or of another version; `Unavailable` if
    /// another transaction was in the way. The transaction is then of no more
    /// use.
    ///
    /// # Cancel safety
    /// Roll the transaction back.
    pub async fn claim<DB: FenceDatabase>(
        &self,
        transaction: &mut Transaction<'_, DB>,
        fence: Fence,
    ) -> Result<ClaimedSql> {
        let doing = || format!("claim {}", self.resource);
        let failed = |error| trouble::<DB>(error, doing());
        self.is_allowed(&doing)?;
        let shown = columns::number(self.policy, fence, &doing)?;
        let connection = outermost::<DB>(transaction, &doing).await?;
        let mut row = match DB::ADDS_FIRST {
            true => None,
            false => DB::take(connection, &self.resource).await.map_err(failed)?,
        };
        if row.is_none() {
            let added = DB::ask(connection, DB::ADD, &self.resource).await;
            added.map_err(failed)?;
            row = DB::take(connection, &self.resource).await.map_err(failed)?;
        }
        // Without its row locked it would be let in beside others.
        let row = row.ok_or_else(|| no_row(doing()))?;
        let mark = mark(Some(row), &doing)?;
        let claimed = self.policy.claim(mark, fence);
        claimed.map_err(|stale| Error::stale(stale, doing()))?;
        if mark != Some(fence) {
            let raised = DB::raise(connection, &self.resource, shown).await;
            if raised.map_err(failed)? != 1 {
                return Err(no_row(doing()));
            }
        }
        Ok(ClaimedSql {
            resource: self.resource.clone(),
            fence,
        })
    }

    fn is_allowed(&self, doing: &impl Fn() -> String) -> Result<()> {
        let name = &self.resource;
        let is_fit = (1..=LONGEST_RESOURCE).contains(&name.len());
        if is_fit && !name.contains(char::is_control) {
            return Ok(());
        }
        let why = format!("the resource's name must have 1 to {LONGEST_RESOURCE} bytes of text");
        Err(Error::new(ErrorKind::Usage, doing(), why))
    }
}

/// Part of a database under a claim.
#[derive(Debug, Clone)]
pub struct ClaimedSql {
    resource: String,
    fence: Fence,
}

impl ClaimedSql {
    /// Whose claim it is.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Makes sure that the claim is the newest, and keeps it so until this
    /// transaction ends. It comes before anything else in the transaction.
    ///
    /// # Errors
    /// `Stale` if another has claimed it since, or if the claim was rolled back;
    /// else as for [`FencedSql::claim`].
    ///
    /// # Cancel safety
    /// Roll the transaction back.
    pub async fn check<DB: FenceDatabase>(
        &self,
        transaction: &mut Transaction<'_, DB>,
    ) -> Result<()> {
        let doing = || format!("use what {} protects", self.resource);
        let connection = outermost::<DB>(transaction, &doing).await?;
        let row = DB::take(connection, &self.resource).await;
        let row = row.map_err(|error| trouble::<DB>(error, doing()))?;
        let mark = mark(row, &doing)?;
        access(mark, self.fence).map_err(|stale| refusal(stale, doing()))
    }
}

/// A mark that is lower says that the claim itself is not there.
fn refusal(stale: Stale, doing: String) -> Error {
    let is_lower = |mark: Fence| mark.token < stale.shown.token;
    if !stale.mark.is_none_or(is_lower) {
        return Error::stale(stale, doing);
    }
    let why = format!("{stale}; the claim was rolled back or its commit failed: claim again");
    Error::new(ErrorKind::Stale(stale), doing, why).from_source(stale)
}

/// A savepoint may be rolled back by itself. The mark and, on some databases,
/// the lock on it would be gone, and the transaction would go on.
pub(crate) async fn outermost<'a, DB: FenceDatabase>(
    transaction: &'a mut Transaction<'_, DB>,
    doing: &impl Fn() -> String,
) -> Result<&'a mut DB::Connection> {
    let connection = &mut **transaction;
    let depth = |connection: &DB::Connection| {
        <DB as Database>::TransactionManager::get_transaction_depth(connection)
    };
    if depth(connection) > 1 {
        // One that was dropped may still be on its way out; the next statement comes
        // after that. What is wrong with it shows at ours.
        drop(DB::run(connection, "select 1").await);
    }
    match depth(connection) {
        1 => Ok(connection),
        _ => {
            let why = "inside a savepoint; do it first in the transaction itself";
            Err(Error::new(ErrorKind::Usage, doing(), why))
        }
    }
}

/// There is no row to lock, although it was just added.
fn no_row(doing: String) -> Error {
    let why = "its row in leasehold_fence cannot be seen or is gone; \
               did somebody delete it, or does a row policy hide it?";
    Error::new(ErrorKind::Unavailable, doing, why)
}

/// What a row says; none if nobody has claimed yet.
fn mark(row: Option<Row>, doing: &impl Fn() -> String) -> Result<Option<Fence>> {
    let Some((token, holder, ..)) = row.map(|row| known(row, doing)).transpose()? else {
        return Ok(None);
    };
    columns::fence(Some(token), Some(&holder)).map_err(|why| {
        let why = format!("the row in leasehold_fence is not a mark: {why}");
        Error::new(ErrorKind::Conflict, doing(), why)
    })
}
