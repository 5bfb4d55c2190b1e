//! Removing what is long dead, a little at a time.

use super::MysqlEngine;
use super::line::guarded;
use super::pool::READ_COMMITTED;
use super::takeover::take_over;
use super::text::{column, hex_text, list};
use crate::error::Result;
use crate::name::Name;
use crate::random::random_u64;

/// How many names, and how many sessions, in one go.
const AT_ONCE: usize = 16;

/// How many sessions open for one look at the locks that nobody uses, which reads
/// the whole table if there are none.
const SELDOM: u64 = 16;

/// Of a lock that nobody has used for a day.
const IDLE: &str = "since < utc_timestamp(6) - interval 1 day and \
     greatest(place, drawn) < timestampdiff(microsecond, '1970-01-02', utc_timestamp(6))";

/// Takes out claims and sessions that have been dead for a minute. Nothing
/// depends on it, so that it may fail; the next one who opens a session tries
/// again.
pub(super) async fn sweep(engine: &MysqlEngine) {
    let mut swept = try_to_sweep(engine).await;
    if swept.is_ok() && random_u64().is_multiple_of(SELDOM) {
        swept = sweep_names(engine).await;
    }
    if let Err(error) = swept {
        tracing::debug!(%error, "what is dead stays for now");
    }
}

async fn try_to_sweep(engine: &MysqlEngine) -> Result<()> {
    let doing = || "sweep".to_owned();
    let (session, claim) = (&engine.tables.session, &engine.tables.claim);
    let old = "utc_timestamp(6) - interval 1 minute";
    let query = format!("select hex(id) from {session} where expires < {old} limit {AT_ONCE}");
    let answer = engine.ask_plainly(&query, doing).await?;
    let dead: Vec<_> = answer
        .rows
        .iter()
        .filter_map(|row| column(row, 0))
        .collect();
    if dead.is_empty() {
        return Ok(());
    }
    let dead = list(dead.iter().map(|id| format!("x'{id}'")));
    let query = format!(
        "select distinct hex(name) from {claim} where session in {dead} and ticket is not null limit {AT_ONCE}"
    );
    let answer = engine.ask_plainly(&query, doing).await?;
    let names = answer.rows.iter().filter_map(|row| hex_text(row, 0));
    for name in names.filter_map(|name| Name::new(name).ok()) {
        take_over(engine, &name).await?;
    }
    let delete = format!(
        "{READ_COMMITTED}; delete from {session} where id in {dead} and expires < {old} \
         and not exists (select 1 from {claim} c \
         where c.session = {session}.id and c.ticket is not null); commit"
    );
    engine.ask(&delete, doing).await?;
    Ok(())
}

/// Removes rows of locks that nobody has used for a day. What was drawn there is
/// kept in mind for all, so that no order comes twice even if the clock is set back.
async fn sweep_names(engine: &MysqlEngine) -> Result<()> {
    let doing = || "sweep".to_owned();
    let (meta, claim) = (&engine.tables.meta, &engine.tables.claim);
    let query = format!(
        "select hex(name) from {claim} where seat = 0 and ticket is null and {IDLE} \
         limit {AT_ONCE}"
    );
    for row in engine.ask_plainly(&query, doing).await?.rows {
        let Some(digits) = column(&row, 0) else {
            continue;
        };
        // Alone with the queue, and then: is it one? A row that is gone meanwhile leaves
        // the variables as they are.
        let text = format!(
            "{READ_COMMITTED}; \
             set @leasehold_place = 0, @leasehold_queue = 1; \
             select greatest(place, drawn) into @leasehold_place from {claim} \
             where name = x'{digits}' and seat = 0 for update; \
             select count(*) into @leasehold_queue from {claim} \
             where name = x'{digits}' and (seat > 0 or ticket is not null); \
             update {meta} set floor = greatest(floor, @leasehold_place) \
             where @leasehold_queue = 0; \
             delete from {claim} where name = x'{digits}' and seat = 0 and ticket is null \
             and {IDLE} and @leasehold_queue = 0; commit"
        );
        engine.ask(&guarded(&text), doing).await?;
    }
    Ok(())
}
