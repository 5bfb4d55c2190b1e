//! Removing what is long dead, a little at a time.

use super::MysqlEngine;
use super::takeover::take_over;
use super::text::{column, hex_text, list};
use crate::error::Result;
use crate::name::Name;

/// How many names, and how many sessions, in one go.
const AT_ONCE: usize = 16;

/// Takes out claims and sessions that have been dead for a minute. Nothing
/// depends on it, so that it may fail; the next one who opens a session tries
/// again.
pub(super) async fn sweep(engine: &MysqlEngine) {
    if let Err(error) = try_to_sweep(engine).await {
        tracing::debug!(%error, "what is dead stays for now");
    }
}

async fn try_to_sweep(engine: &MysqlEngine) -> Result<()> {
    let doing = || "sweep".to_owned();
    let (session, claim) = (&engine.tables.session, &engine.tables.claim);
    let old = "utc_timestamp(6) - interval 1 minute";
    let query = format!("select hex(id) from {session} where expires < {old} limit {AT_ONCE}");
    let answer = engine.ask(&query, doing).await?;
    let dead: Vec<_> = answer
        .rows
        .iter()
        .filter_map(|row| column(row, 0))
        .collect();
    if dead.is_empty() {
        return Ok(());
    }
    let dead = list(dead.iter().map(|id| format!("x'{id}'")));
    let query =
        format!("select distinct hex(name) from {claim} where session in {dead} limit {AT_ONCE}");
    let answer = engine.ask(&query, doing).await?;
    let names = answer.rows.iter().filter_map(|row| hex_text(row, 0));
    for name in names.filter_map(|name| Name::new(name).ok()) {
        take_over(engine, &name).await?;
    }
    let delete = format!(
        "set transaction isolation level read committed; start transaction read write; \
         delete from {session} where id in {dead} and expires < {old} \
         and not exists (select 1 from {claim} c where c.session = {session}.id); commit"
    );
    engine.ask(&delete, doing).await?;
    Ok(())
}
