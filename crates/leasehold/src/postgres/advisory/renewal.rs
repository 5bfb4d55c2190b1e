//! Keeping the lease: the server ends a connection that is silent for the ttl.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx_core::error::Error as SqlxError;
use tokio::time::timeout;

use super::super::fault::fault;
use super::super::text::{array, bits, column, number, ticket};
use super::AdvisoryEngine;
use super::line::Line;
use super::open::{Mine, OpenLease};
use crate::engine::{GoneClaim, Lease, Renewal, TicketId};
use crate::error::Result;
use crate::guard::Lost;

const DOING: &str = "renew";

pub(super) async fn renew(engine: &AdvisoryEngine, lease: &Lease) -> Result<Renewal> {
    let Some(open) = engine.lease(lease.id) else {
        return Ok(Renewal::LeaseGone);
    };
    let text = format!(
        "select last_value, pg_backend_pid() from {}.token",
        engine.schema
    );
    let answer = open.main.run_urgent(text).await;
    if open.main.is_broken() {
        return Ok(Renewal::LeaseGone);
    }
    let failed = |error| fault(error, DOING.into(), &engine.pool.label);
    let rows = answer.map_err(failed)?;
    let row = rows.first();
    // On another connection than before there is nothing of ours.
    let pid = row.and_then(|row| number::<i32>(row, 1));
    let last = row.and_then(|row| number(row, 0));
    let Some(last) = last.filter(|_| pid == Some(open.main.pid)) else {
        return Ok(Renewal::LeaseGone);
    };
    let mut proven = HashSet::new();
    loop {
        let left = open.is_renewed(last, &proven);
        if left.is_empty() {
            break;
        }
        let asking = left.iter().map(|side| is_alive(&side.line, lease.ttl));
        for (side, is_alive) in left.iter().zip(join_all(asking).await) {
            if is_alive.map_err(failed)? {
                proven.insert(side.line.pid);
            }
        }
    }
    let mut gone = broken(&open);
    if open.is_doubted.swap(false, Ordering::AcqRel) {
        match evicted(engine, &open).await {
            Ok(evicted) => gone.extend(evicted),
            Err(error) => {
                open.is_doubted.store(true, Ordering::Release);
                return Err(error);
            }
        }
    }
    Ok(Renewal::Renewed { gone })
}

/// Asks a side connection for a sign of life; `false` if it is broken, which
/// shows in what it holds.
///
/// One that is silent must not cost the locks of the others. It is given up in
/// the middle of the ttl, while there is time to renew them without it.
async fn is_alive(line: &Line, ttl: Duration) -> Result<bool, SqlxError> {
    match timeout(ttl / 12, line.run_urgent("select 1".into())).await {
        Ok(Ok(_)) => return Ok(true),
        Ok(Err(_)) if line.is_broken() => {}
        Ok(Err(error)) => return Err(error),
        Err(_) if line.silence() < ttl / 2 => {
            return Err(SqlxError::Io(std::io::ErrorKind::TimedOut.into()));
        }
        Err(_) => {
            tracing::warn!(?line, "a connection is silent; what it holds is lost");
            line.end();
        }
    }
    Ok(false)
}

/// Claims whose side connection was ended.
fn broken(open: &OpenLease) -> Vec<GoneClaim> {
    let is_broken = |mine: &Arc<Mine>| {
        mine.held_aside()
            .is_some_and(|(side, _)| side.line.is_broken())
    };
    let claims = open.claims().into_iter().filter(is_broken);
    let gone = claims.map(|mine| GoneClaim {
        id: mine.claim.id,
        lost: Lost::Gone,
        note: None,
    });
    gone.collect()
}

/// Claims that somebody broke.
async fn evicted(engine: &AdvisoryEngine, open: &OpenLease) -> Result<Vec<GoneClaim>> {
    let held: HashMap<TicketId, Arc<Mine>> = open
        .claims()
        .into_iter()
        .filter(|mine| mine.token().is_some())
        .map(|mine| (mine.claim.id, mine))
        .collect();
    let tickets = array("uuid", held.keys().map(|id| ticket(*id)));
    let text = format!(
        "select ticket, by, reason from {}.eviction where ticket = any({tickets})",
        engine.schema
    );
    let rows = open.main.run_urgent(text).await;
    let rows = rows.map_err(|error| fault(error, DOING.into(), &engine.pool.label))?;
    let gone = rows.iter().filter_map(|row| {
        let id = TicketId(bits(column(row, 0)?)?);
        let by = column(row, 1)?;
        let note = match column(row, 2) {
            None | Some("") => format!("by {by}"),
            Some(reason) => format!("by {by}: {reason}"),
        };
        Some(GoneClaim {
            id,
            lost: Lost::Evicted,
            note: Some(note),
        })
    });
    Ok(gone.collect())
}
