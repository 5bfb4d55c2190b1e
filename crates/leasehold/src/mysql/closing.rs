//! Ending a lease: everything that it has goes.

use std::collections::HashMap;
use std::sync::Arc;

use super::MysqlEngine;
use super::inbox::Mine;
use super::leaving::{leave, leave_without};
use super::line::guarded;
use super::pool::{Lane, READ_COMMITTED};
use super::takeover::ENDED;
use super::text::{bits, column, lease as lease_literal, number};
use super::tie::untie_text;
use crate::engine::{Lease, TicketId};
use crate::error::Result;

/// How many claims one transaction takes out.
const AT_ONCE: usize = 256;

/// Ends the lease and takes out its claims.
pub(super) async fn close(engine: &MysqlEngine, lease: &Lease) -> Result<()> {
    let doing = || "close the session".to_owned();
    let id = lease_literal(lease.id);
    let (session, claim) = (&engine.tables.session, &engine.tables.claim);
    engine.inbox.close_lease(lease.id);
    let claims = engine.inbox.claims_of(lease.id);
    // From here on nothing more is put under this lease.
    let end = format!("update {session} set expires = {ENDED} where id = {id}");
    engine.pool.ask_on(Lane::Leases, &end, doing).await?;
    // Requests that read the session before that have their queue for now.
    for mine in claims.iter().filter(|mine| mine.is_in_doubt()) {
        leave(engine, mine).await?;
    }
    take_out_all(engine, &id, &claims).await?;
    // A claim that a transaction is fenced by stays, and the row with it.
    let finish = format!(
        "{READ_COMMITTED}; delete from {session} where id = {id} and not exists ( \
         select 1 from {claim} c where c.session = {id} and c.ticket is not null); commit"
    );
    engine.pool.ask_on(Lane::Leases, &finish, doing).await?;
    if engine.is_tied {
        let untie = untie_text(lease.id);
        engine.pool.ask_on(Lane::Leases, &untie, doing).await?;
    }
    let forget = |mine: &Arc<Mine>| engine.inbox.forget(mine.claim.id);
    claims.iter().for_each(forget);
    Ok(())
}

/// Takes out what the store has under the lease. Rows are taken in the order of
/// their keys, as everybody does who takes several.
async fn take_out_all(engine: &MysqlEngine, id: &str, claims: &[Arc<Mine>]) -> Result<()> {
    let doing = || "close the session".to_owned();
    let claim = &engine.tables.claim;
    let known: HashMap<TicketId, &Arc<Mine>> =
        claims.iter().map(|mine| (mine.claim.id, mine)).collect();
    let query = format!(
        "{READ_COMMITTED}; select hex(name), seat, hex(ticket) from {claim} \
         where session = {id} and ticket is not null order by name, seat; commit"
    );
    let answer = engine.pool.ask_on(Lane::Leases, &query, doing).await?;
    let mut statements = Vec::new();
    for row in &answer.rows {
        let stored = column(row, 0).zip(number::<u64>(row, 1)).zip(bits(row, 2));
        let Some(((name, seat), ticket)) = stored else {
            continue;
        };
        match known.get(&TicketId(ticket)) {
            // It may stay locked as long as somebody's transaction lasts.
            Some(mine) if mine.seat().1 => {
                let _ = leave_without(engine, mine).await;
            }
            _ => {
                let change = match seat {
                    0 => format!("update {claim} set ticket = null"),
                    _ => format!("delete from {claim}"),
                };
                statements.push(format!(
                    "{change} where name = x'{name}' and seat = {seat} and ticket = x'{ticket:032x}'"
                ));
            }
        }
    }
    for part in statements.chunks(AT_ONCE) {
        let text = format!("{READ_COMMITTED}; {}; commit", part.join("; "));
        let text = guarded(&text);
        engine.pool.ask_on(Lane::Leases, &text, doing).await?;
    }
    Ok(())
}
