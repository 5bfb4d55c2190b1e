//! Keeping a lease, and finding out which claims are gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::answer::strange;
use super::inbox::Mine;
use super::pool::Lane;
use super::text::{array, bits, column, lease as lease_id, numbers, quoted, ticket};
use super::{PostgresEngine, claims, lock};
use crate::engine::{ClaimRef, GoneClaim, Lease, Renewal, TicketId};
use crate::error::Result;
use crate::guard::Lost;
use crate::name::Name;

/// How many claims one statement asks after.
const AT_ONCE: usize = 1000;

const DOING: &str = "renew";

pub(super) async fn renew(engine: &PostgresEngine, lease: &Lease) -> Result<Renewal> {
    let Some(open) = engine.inbox.lease(lease.id) else {
        return Ok(Renewal::LeaseGone);
    };
    let mut held: Vec<_> = engine.inbox.claims_of(lease.id);
    held.retain(|mine| mine.held().is_some());
    let mut missing = Vec::new();
    let mut parts: Vec<_> = held.chunks(AT_ONCE).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    for part in parts {
        match renew_with(engine, lease, part).await? {
            Some(more) => missing.extend(more),
            None => return Ok(Renewal::LeaseGone),
        }
    }
    let server = lock(&engine.server).clone();
    if *lock(&open.agreed) != server {
        // It must not keep the renewal; the next one goes on with it.
        let giving = give_back_forgotten(engine, lease);
        if let Ok(Ok(())) = timeout(lease.ttl / 8, giving).await {
            *lock(&open.agreed) = server;
        }
    }
    // What was given back meanwhile is not missed.
    missing.retain(|mine: &Arc<Mine>| mine.held().is_some());
    let gone = match missing.is_empty() {
        true => Vec::new(),
        false => causes(engine, &missing).await?,
    };
    Ok(Renewal::Renewed { gone })
}

/// Renews and asks after these claims. `None` if the lease is gone.
async fn renew_with(
    engine: &PostgresEngine,
    lease: &Lease,
    claims: &[Arc<Mine>],
) -> Result<Option<Vec<Arc<Mine>>>> {
    let names = claims.iter().map(|mine| quoted(mine.claim.name.as_str()));
    let places = claims
        .iter()
        .map(|mine| mine.held().unwrap_or(0).to_string());
    let tickets = claims.iter().map(|mine| ticket(mine.claim.id));
    let arguments = format!(
        "{}, {}, {}, {}, {}",
        lease_id(lease.id),
        whole_millis(lease.ttl),
        array("text", names),
        array("bigint", places),
        array("uuid", tickets),
    );
    let asking = engine.call(Lane::AtOnce, "renew", &arguments, || DOING.into());
    let answer = asking.await?;
    let row = answer.rows.first();
    let row = row.ok_or_else(|| strange(DOING.into(), &engine.pool.label))?;
    if column(row, 0) != Some("t") {
        return Ok(None);
    }
    engine.meets(column(row, 1).unwrap_or_default());
    let missing = column(row, 2).and_then(numbers).unwrap_or_default();
    let missing = missing
        .into_iter()
        .filter_map(|number| claims.get(usize::try_from(number).ok()?.checked_sub(1)?));
    Ok(Some(missing.cloned().collect()))
}

/// Another server may have forgotten that a claim was given back, and the lease
/// would keep it alive. A claim is known here before it is asked for and until
/// it is surely out, so what is not known is such a one.
async fn give_back_forgotten(engine: &PostgresEngine, lease: &Lease) -> Result<()> {
    let (schema, session) = (&engine.schema, lease_id(lease.id));
    let query = format!("select name, ticket from {schema}.claim where session = {session}");
    let asking = engine.pool.ask_in(Lane::AtOnce, &query, || DOING.into());
    for row in asking.await?.rows {
        let name = column(&row, 0).and_then(|name| Name::new(name).ok());
        let id = column(&row, 1).and_then(bits).map(TicketId);
        if let (Some(name), Some(id)) = (name, id)
            && engine.inbox.claim(id).is_none()
        {
            claims::withdraw(engine, &ClaimRef { name, id }).await?;
        }
    }
    Ok(())
}

/// Which of the missing were broken, and by whom.
async fn causes(engine: &PostgresEngine, missing: &[Arc<Mine>]) -> Result<Vec<GoneClaim>> {
    let tickets = array("uuid", missing.iter().map(|mine| ticket(mine.claim.id)));
    let query = format!(
        "select ticket, by, reason from {}.eviction where ticket = any({tickets})",
        engine.schema
    );
    let answer = engine.pool.ask(&query, || DOING.into()).await?;
    let notes: HashMap<TicketId, String> = answer
        .rows
        .iter()
        .filter_map(|row| {
            let id = TicketId(bits(column(row, 0)?)?);
            let by = column(row, 1)?;
            let note = match column(row, 2) {
                None | Some("") => format!("by {by}"),
                Some(reason) => format!("by {by}: {reason}"),
            };
            Some((id, note))
        })
        .collect();
    let gone = missing.iter().map(|mine| {
        let id = mine.claim.id;
        let note = notes.get(&id).cloned();
        let lost = match note {
            Some(_) => Lost::Evicted,
            None => Lost::Gone,
        };
        GoneClaim { id, lost, note }
    });
    Ok(gone.collect())
}

/// Rounded up: the store must not end a lease before its holder does.
pub(super) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
