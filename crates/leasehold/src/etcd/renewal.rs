//! Keeping the lease, and seeing whether its claims are still there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tonic::Status;

use super::claims::Mine;
use super::request::{look, one};
use super::wire::{
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
    RangeRequest,
};
use super::{EtcdEngine, keys, record, seconds};
use crate::engine::{GoneClaim, Lease, Renewal};
use crate::error::Result;
use crate::guard::Lost;

/// How many keys one request asks for; the server takes 128.
const AT_ONCE: usize = 100;

/// Keeps the lease for another ttl and says which claims are gone.
pub(super) async fn renew(engine: &EtcdEngine, lease: &Lease) -> Result<Renewal> {
    match engine.claims.lease(lease.id) {
        // Its inbox went, and that goes with the lease. Whoever waits for our
        // claims has heard it too: there is no time to ask.
        Some(open) if open.news.is_gone() => return Ok(Renewal::LeaseGone),
        Some(_) => {}
        None => return Ok(Renewal::LeaseGone),
    }
    let number = keys::number(lease.id);
    let claims = engine.claims.standing(lease.id);
    let (ttl, gone) = tokio::join!(keep(engine, number), missing(engine, claims));
    if ttl? <= 0 {
        return Ok(Renewal::LeaseGone);
    }
    Ok(match gone {
        Ok(gone) => Renewal::Renewed { gone },
        // The lease goes on; what is missing the next renewal finds.
        Err(_) => Renewal::Renewed { gone: Vec::new() },
    })
}

/// The lease's new ttl, 0 if there is no such lease.
async fn keep(engine: &EtcdEngine, id: i64) -> Result<i64> {
    let keep = async |member: usize| {
        let request = LeaseKeepAliveRequest { id };
        let requests = futures_util::stream::iter([request]);
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let mut answers = engine
            .members
            .stream::<_, LeaseKeepAliveResponse>(member, path, requests)
            .await?;
        let answer = answers.message().await?;
        let ended = || Status::unavailable("the server ended the stream");
        answer.map(|answer| answer.ttl).ok_or_else(ended)
    };
    let doing = || "renew".to_owned();
    Ok(engine.members.try_each(doing, keep).await?.answer)
}

/// The claims that the store does not have any more. Those that wait are told
/// themselves.
async fn missing(engine: &EtcdEngine, claims: Vec<Arc<Mine>>) -> Result<Vec<GoneClaim>> {
    let batches = claims
        .chunks(AT_ONCE)
        .map(|batch| missing_of(engine, batch));
    let gone = try_join_all(batches).await?.concat();
    // Who was rung looks for itself.
    let (held, waiting): (Vec<_>, Vec<_>) = gone.into_iter().partition(|mine| mine.is_held());
    for mine in waiting {
        if let Some(watcher) = mine.watcher() {
            watcher.ring();
        }
    }
    let reports = held.iter().map(|mine| report(engine, mine));
    try_join_all(reports).await
}

async fn missing_of(engine: &EtcdEngine, claims: &[Arc<Mine>]) -> Result<Vec<Arc<Mine>>> {
    let read = |mine: &Arc<Mine>| RangeRequest {
        keys_only: true,
        ..one(&mine.key)
    };
    let request = look(claims.iter().map(read));
    let answer = engine.transact(&request, || "renew".to_owned()).await?;
    let found = answer.into_reads();
    let is_gone = |mine: &Arc<Mine>, kv: Option<i64>| kv != mine.order() && !mine.is_leaving();
    let gone = claims.iter().zip(found).filter(|(mine, range)| {
        let created = range.kvs.first().map(|kv| kv.create_revision);
        is_gone(mine, created)
    });
    Ok(gone.map(|(mine, _)| mine.clone()).collect())
}

/// Why a claim is gone: somebody broke it, and left a note, or it just is.
async fn report(engine: &EtcdEngine, mine: &Mine) -> Result<GoneClaim> {
    let note = keys::broken_claim(&mine.claim.name, mine.order().unwrap_or(0));
    let request = look([one(&note)]);
    let answer = engine.transact(&request, || "renew".to_owned()).await?;
    let note = answer.into_reads().next().unwrap_or_default();
    let broken = note
        .kvs
        .first()
        .and_then(|kv| record::Broken::read(&kv.value));
    let (lost, note) = match broken {
        Some(broken) => {
            let note = format!("by {}: {}", broken.by, broken.reason);
            (Lost::Evicted, Some(note))
        }
        None => (Lost::Gone, None),
    };
    let id = mine.claim.id;
    Ok(GoneClaim { id, lost, note })
}

/// What the store granted a lease that it already has, and at which revision.
pub(super) async fn granted(engine: &EtcdEngine, id: i64) -> Result<(Duration, i64)> {
    let request = LeaseTimeToLiveRequest { id };
    let path = "/etcdserverpb.Lease/LeaseTimeToLive";
    let doing = || "open a session".to_owned();
    let answer: LeaseTimeToLiveResponse = engine.members.ask(path, &request, doing).await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    Ok((seconds(answer.granted_ttl), revision))
}
