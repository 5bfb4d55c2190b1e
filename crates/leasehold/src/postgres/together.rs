//! Requests on several names that are made at the same time go as one message and
//! one commit, which is most of what a request costs the server.
//!
//! A party has the queues of its names to itself until all of it is done. So it takes
//! only those that are free just then, and waits for nothing for long: whoever wants
//! another one asks alone, and holds up nobody else.

use sqlx_postgres::PgRow;

use super::fault::fault;
use super::pool::{LIMIT, Own, Trouble};
use crate::error::Effect;
use crate::gather::{Asked, Carrier, Gathering};

/// How many go together at most. Each takes room in a table that all transactions
/// share.
const MOST: usize = 16;

/// For what a party may have to wait that is no queue: a row that a transaction of a
/// user is fenced by. Longer than anything else takes.
const WITHOUT_WAITING: &str = "set local lock_timeout = 100; ";

/// A request that changes one queue and calls a function for one row.
pub(super) struct Change(String);

impl Change {
    /// The name is a literal.
    pub(super) fn of(name: &str, call: &str) -> Self {
        // The same lock as in `take`, which then has it already.
        let is_free = format!("pg_try_advisory_xact_lock(hashtextextended({name}, 7809639172))");
        Self(format!("select case when {is_free} then {call} end; "))
    }
}

/// What became of a party whose questions were not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Nothing of it was done.
    Refused,
    /// It may have been carried out.
    InDoubt,
    /// The same, and the server stays silent.
    Silent,
}

/// The row, unless the queue was in use: then nothing was done.
type Told = Result<Option<PgRow>, Unanswered>;

impl Carrier for Own {
    type Question = Change;
    type Answer = Told;

    fn gathering(&self) -> &Gathering<Change, Told> {
        &self.gathering
    }

    async fn carry(&self) {
        // It is never closed.
        let _room = self.room.acquire().await;
        let departed = self.gathering.depart(MOST, |_| true, text);
        let Some((party, text)) = departed else {
            return;
        };
        match self.run_all(&text, party.len()).await {
            Ok(rows) => {
                for (one, row) in party.into_iter().zip(rows) {
                    let is_done = super::text::column(&row, 0).is_some();
                    one.answer(Ok(is_done.then_some(row)));
                }
            }
            Err(why) => party.into_iter().for_each(|one| one.answer(Err(why))),
        }
    }
}

fn text(party: &[Asked<Change, Told>]) -> String {
    party.iter().map(|one| &*one.question.0).collect()
}

impl Own {
    async fn run_all(&self, text: &str, count: usize) -> Result<Vec<PgRow>, Unanswered> {
        let text = self.pinned(&format!("{WITHOUT_WAITING}{text}"));
        match tokio::time::timeout(LIMIT, self.run_now(text)).await {
            Ok(Ok(rows)) if rows.len() == count => Ok(rows),
            Ok(Ok(_)) => Err(Unanswered::InDoubt),
            Ok(Err(Trouble::Failed { error, .. })) => {
                Err(match fault(error, String::new(), "").effect() {
                    Effect::None => Unanswered::Refused,
                    _ => Unanswered::InDoubt,
                })
            }
            Ok(Err(Trouble::Silent)) | Err(_) => Err(Unanswered::Silent),
        }
    }
}
