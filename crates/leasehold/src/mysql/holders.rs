//! Who holds a lock, by the server whose term it is: one that was replaced and is
//! asked all the same has not heard of any renewal since, and takes all for dead. So
//! may one that was down for a while.

use super::MysqlEngine;
use super::inspect::read_queue;
use super::line::guarded;
use super::look::strange;
use super::pool::{Lane, READ_COMMITTED};
use super::term::settle;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// How often it is asked anew because the server's term had to begin.
const ROUNDS: u32 = 3;

/// The ids of those who hold the lock now.
pub(super) async fn holders(engine: &MysqlEngine, name: &Name) -> Result<Vec<u64>> {
    let doing = || format!("see who holds {name}");
    for _ in 0..ROUNDS {
        // The term comes last: so what was read before is of a server that led.
        let text = format!(
            "{READ_COMMITTED}; {queue}; {confirming} {term}; commit",
            confirming = engine.confirming_text(doing).await?,
            queue = engine.queue_text(name),
            term = engine.term_text(),
        );
        let answer = engine.ask(&guarded(&text), doing).await?;
        let Some((rows, term)) = answer.rows.split_last_chunk::<2>() else {
            return Err(strange(doing(), &engine.pool.label));
        };
        if engine.beginning_text(term, doing)?.is_none() {
            let (rows, _, holders) = read_queue(rows);
            return Ok(rows[..holders].iter().map(|row| row.holder).collect());
        }
        settle(engine, Lane::Common, doing).await?;
    }
    let why = "the server's term ends as soon as it begins";
    Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*engine.pool.label))
}
