//! Keeping claims for another ttl: all of them in as few requests as may be.
//!
//! Most claims are alone on their locks, and for those one key is enough; the
//! few that are not go over to the script that knows queues.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::answer::strange;
use super::inbox::Mine;
use super::keys::unfield;
use super::{RedisEngine, whole_millis};
use crate::engine::GoneClaim;
use crate::error::Result;
use crate::guard::Lost;

/// How many claims one request renews. The server does nothing else meanwhile,
/// which is about a millisecond.
const BATCH: usize = 500;

/// Renews these claims; those that the store does not have are returned.
pub(super) async fn renew(
    engine: &RedisEngine,
    ttl: Duration,
    claims: Vec<Arc<Mine>>,
) -> Result<Vec<GoneClaim>> {
    let (alone, mut others): (Vec<_>, Vec<_>) =
        claims.into_iter().partition(|mine| mine.is_alone());
    let batches = engine.server.batches(alone, BATCH, key);
    let renewals = batches.iter().map(|batch| renew_alone(engine, ttl, batch));
    others.extend(try_join_all(renewals).await?.into_iter().flatten());
    let batches = engine.server.batches(others, BATCH, key);
    let renewals = batches.iter().map(|batch| renew_batch(engine, ttl, batch));
    let gone = try_join_all(renewals).await?;
    Ok(gone.into_iter().flatten().collect())
}

fn key(mine: &Arc<Mine>) -> String {
    mine.keys.lock().to_owned()
}

/// Renews those of the claims that are alone on their locks, and returns the
/// others.
async fn renew_alone(
    engine: &RedisEngine,
    ttl: Duration,
    claims: &[Arc<Mine>],
) -> Result<Vec<Arc<Mine>>> {
    let keys: Vec<_> = claims.iter().map(|mine| mine.keys.lock()).collect();
    let ttl = whole_millis(ttl).to_string();
    let tickets = claims.iter().map(|mine| mine.ticket.as_str());
    let arguments: Vec<_> = std::iter::once(ttl.as_str()).chain(tickets).collect();
    let doing = || "renew".to_owned();
    let script = &engine.scripts.renew_alone;
    let (answer, doer): (Vec<u64>, _) = engine
        .server
        .run_noting(script, &keys, &arguments, doing)
        .await?;
    let strange = || strange(doing(), &engine.server.label);
    let (now, others) = answer.split_first().ok_or_else(strange)?;
    engine.server.learn_time(keys[0], *now);
    let other = |number: &u64| {
        let number = usize::try_from(*number).ok()?;
        claims.get(number.checked_sub(1)?).cloned()
    };
    let others: Option<Vec<_>> = others.iter().map(other).collect();
    let others = others.ok_or_else(strange)?;
    engine.server.confirm(&doer, keys[0], doing).await?;
    others.iter().for_each(|mine| mine.is_not_alone());
    Ok(others)
}

/// Renews these claims; those that the store does not have are returned, with a
/// note if they were broken.
async fn renew_batch(
    engine: &RedisEngine,
    ttl: Duration,
    claims: &[Arc<Mine>],
) -> Result<Vec<GoneClaim>> {
    let keys: Vec<_> = claims.iter().flat_map(|mine| mine.keys.all()).collect();
    let ttl = whole_millis(ttl).to_string();
    let tickets = claims.iter().map(|mine| mine.ticket.as_str());
    let arguments: Vec<_> = std::iter::once(ttl.as_str()).chain(tickets).collect();
    // A grant may be answered sooner than a renewal that was done before it.
    let were_there: Vec<_> = claims.iter().map(|mine| !mine.is_asked_for()).collect();
    let doing = || "renew".to_owned();
    let script = &engine.scripts.renew;
    let (answer, doer): (Vec<String>, _) = engine
        .server
        .run_noting(script, &keys, &arguments, doing)
        .await?;
    let strange = || strange(doing(), &engine.server.label);
    let (now, missing) = answer.split_first().ok_or_else(strange)?;
    let now = now.parse().map_err(|_| strange())?;
    engine.server.learn_time(keys[0], now);
    let mut gone = Vec::new();
    for pair in missing.chunks_exact(2) {
        let number: usize = pair[0].parse().map_err(|_| strange())?;
        let number = number.wrapping_sub(1);
        let mine = claims.get(number).ok_or_else(strange)?;
        // A claim that waits is looked at; one that was still asked for may not
        // have arrived yet. It is not missing before it was there.
        if mine.is_missing() && were_there[number] {
            gone.push(missed(mine, &pair[1]));
        }
    }
    engine.server.confirm(&doer, keys[0], doing).await?;
    Ok(gone)
}

/// A claim that a renewal did not find; the note is `by reason` if it was
/// broken.
fn missed(mine: &Mine, note: &str) -> GoneClaim {
    let note = note.split_once(' ');
    GoneClaim {
        id: mine.claim.id,
        lost: if note.is_some() {
            Lost::Evicted
        } else {
            Lost::Gone
        },
        note: note.map(|(by, reason)| format!("by {}: {}", unfield(by), unfield(reason))),
    }
}
