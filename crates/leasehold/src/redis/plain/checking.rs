//! Whether a lock that changed while we hold it is still ours.
//!
//! That is asked without a write: a server before Redis 7 also tells us of
//! changes that our own scripts made, and a renewal would be the next one.

use std::sync::Arc;

use futures_util::future::join_all;

use super::claims::{Mine, OpenLease};
use super::keys::hex;
use super::{BATCH, PlainEngine};
use crate::error::Result;

/// Looks at each held lock that changed, and returns when one may be gone: a
/// renewal then says which.
///
/// # Cancel safety
/// A change counts until it was looked at.
pub(super) async fn until_one_is_gone(engine: &PlainEngine, open: &OpenLease) {
    loop {
        let stirred = engine.claims.stirred(open.lease.id);
        if stirred.is_empty() {
            open.news.notified().await;
            continue;
        }
        let key = |(mine, _): &(Arc<Mine>, u64)| mine.claim.name.as_str().to_owned();
        let batches = engine.server.batches(stirred, BATCH, key);
        let answers = join_all(batches.iter().map(|batch| are_ours(engine, batch))).await;
        for (mine, changes) in batches.iter().flatten() {
            // Also where no answer came: the renewal looks again, in its own time.
            mine.is_seen(*changes);
        }
        if answers.iter().any(|answer| !matches!(answer, Ok(true))) {
            return;
        }
    }
}

async fn are_ours(engine: &PlainEngine, batch: &[(Arc<Mine>, u64)]) -> Result<bool> {
    let locks = batch.iter().map(|(mine, _)| &mine.claim);
    let keys: Vec<_> = locks.clone().map(|claim| claim.name.as_str()).collect();
    let tickets: Vec<_> = locks.map(|claim| hex(claim.id)).collect();
    let tickets: Vec<_> = tickets.iter().map(String::as_str).collect();
    let doing = || "check".to_owned();
    let script = &engine.scripts.check;
    let ours: Vec<u32> = engine.server.run(script, &keys, &tickets, doing).await?;
    Ok(ours.iter().all(|ours| *ours == 1))
}
