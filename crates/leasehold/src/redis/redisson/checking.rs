//! Whether a lock that changed while we hold it is still ours.
//!
//! That is asked without a write: a server before Redis 7 also tells us of
//! changes that our own scripts made, and a renewal would be the next one.

use std::sync::Arc;

use futures_util::future::join_all;

use super::claims::{Mine, OpenLease};
use super::{BATCH, RedissonEngine};
use crate::error::Result;

/// Looks at each held lock that changed, and returns when one may be gone: a
/// renewal then says which and why.
///
/// # Cancel safety
/// A change counts until it was looked at.
pub(super) async fn until_one_is_gone(engine: &RedissonEngine, open: &OpenLease) {
    loop {
        let stirred = engine.claims.stirred(open.lease.id);
        if stirred.is_empty() {
            open.news.notified().await;
            continue;
        }
        let key = |(mine, _): &(Arc<Mine>, u64)| mine.claim.name.as_str().to_owned();
        let batches = engine.server.batches(stirred, BATCH, key);
        let checks = batches.iter().map(|batch| are_ours(engine, batch));
        let answers = join_all(checks).await;
        for (mine, changes) in batches.iter().flatten() {
            // Also where no answer came: the renewal looks again, in its own time.
            mine.is_checked(*changes);
        }
        if answers.iter().any(|answer| !matches!(answer, Ok(true))) {
            return;
        }
    }
}

async fn are_ours(engine: &RedissonEngine, batch: &[(Arc<Mine>, u64)]) -> Result<bool> {
    let keys: Vec<_> = batch
        .iter()
        .map(|(mine, _)| mine.claim.name.as_str())
        .collect();
    let holders: Vec<_> = batch.iter().map(|(mine, _)| mine.holder.as_str()).collect();
    let doing = || "check".to_owned();
    let script = &engine.scripts.check;
    let held: Vec<u32> = engine.server.run(script, &keys, &holders, doing).await?;
    Ok(held.iter().all(|held| *held == 1))
}
