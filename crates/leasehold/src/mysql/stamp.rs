//! Whether a writer came: by the last orders that the lock's first seat knows, which
//! every claim changes. What a failover or a restart forgets is not taken for
//! nothing: then it is another term, or another start of the server.

use super::line::guarded;
use super::look::strange;
use super::pool::{Lane, READ_COMMITTED};
use super::term::{START_IS_ABOUT, settle};
use super::text::{column, name as name_literal, number};
use super::{MysqlEngine, lock};
use crate::engine::Mark;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::random::random_u64;

/// How often it is asked anew because something had to be made first.
const ROUNDS: u32 = 4;

/// The lock's mark; none if there is a writer.
pub(super) async fn stamp(engine: &MysqlEngine, name: &Name) -> Result<Option<Mark>> {
    let doing = || format!("read {name} without a lock");
    let odd = || strange(doing(), &engine.pool.label);
    for _ in 0..ROUNDS {
        let text = format!(
            include_str!("sql/stamp.sql"),
            claim = engine.tables.claim,
            meta = engine.tables.meta,
            current = engine.current_text(),
            confirming = engine.confirming_text(doing).await?,
            name = name_literal(name.as_str()),
        );
        let answer = engine.ask(&text, doing).await?;
        let [row, uptime] = &*answer.rows else {
            return Err(odd());
        };
        if column(row, 4).as_deref() != Some("1") {
            settle(engine, Lane::Common, doing).await?;
            continue;
        }
        if column(row, 2).as_deref() != Some("0") {
            return Ok(None);
        }
        let (Some(place), Some(drawn)) = (column(row, 0), column(row, 1)) else {
            // A row that is not there remembers nothing.
            let text = engine.alone_text(name.as_str());
            let text = guarded(&format!("{READ_COMMITTED}; {text} commit"));
            engine.ask(&text, doing).await?;
            continue;
        };
        let (now, uptime): (Option<u64>, Option<u64>) = (number(row, 5), number(uptime, 1));
        let (term, now, uptime) = match (column(row, 3), now, uptime) {
            (Some(term), Some(now), Some(uptime)) => (term, now, uptime),
            _ => return Err(odd()),
        };
        let run = engine.run_since(now.saturating_sub(uptime));
        return Ok(Some(Mark(format!("{term} {run} {place} {drawn}"))));
    }
    let why = "the lock's row is gone as soon as it is made";
    Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*engine.pool.label))
}

/// A server's run, as this session knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    started: u64,
    id: u64,
}

impl MysqlEngine {
    /// Which run of the server it is that began about then. Clocks in whole seconds
    /// do not say exactly when.
    fn run_since(&self, started: u64) -> u64 {
        let mut run = lock(&self.run);
        if run.started.abs_diff(started) > START_IS_ABOUT {
            *run = Run {
                started,
                id: random_u64(),
            };
        }
        run.id
    }
}
