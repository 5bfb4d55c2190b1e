//! Who holds a lock, by the server whose term it is: one that was replaced and is
//! asked all the same has not heard of any renewal since, and takes all for dead.

use super::MysqlEngine;
use super::inspect::read_queue;
use super::look::strange;
use super::pool::{Lane, READ_COMMITTED};
use super::term::settle;
use super::text::column;
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
            "{READ_COMMITTED}; {queue}; select {current} from {meta} m; commit",
            current = engine.current_text(),
            meta = engine.tables.meta,
            queue = engine.queue_text(name),
        );
        let answer = engine.ask(&text, doing).await?;
        let Some((term, rows)) = answer.rows.split_last() else {
            return Err(strange(doing(), &engine.pool.label));
        };
        if column(term, 0).as_deref() == Some("1") {
            let (rows, _, holders) = read_queue(rows);
            return Ok(rows[..holders].iter().map(|row| row.holder).collect());
        }
        settle(engine, Lane::Common, doing).await?;
    }
    let why = "the server's term ends as soon as it begins";
    Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*engine.pool.label))
}
