//! Keeping the lease, and seeing whether its claims are still there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tonic::Status;

use super::claims::{Mine, OpenLease};
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
    let open = match engine.claims.lease(lease.id) {
        // Its inbox went, and that goes with the lease. Whoever waits for our
        // claims has heard it too: there is no time to ask.
        Some(open) if open.news.is_gone() => return Ok(Renewal::LeaseGone),
        Some(open) => open,
        None => return Ok(Renewal::LeaseGone),
    };
    let member = engine.members.current();
    if keep(engine, open.number).await? <= 0 {
        return Ok(Renewal::LeaseGone);
    }
    // A leader that was deposed and does not know it yet answers keep-alives.
    // It answers no read: that takes a majority. So a keep-alive counts if the
    // same member answers a read after it.
    let claims = engine.claims.standing(lease.id);
    let seen = see(engine, &open, claims).await?;
    let is_same = engine.members.current() == member;
    Ok(match seen {
        Seen::NoInbox => Renewal::LeaseGone,
        Seen::Gone(gone) if is_same => Renewal::Renewed { gone },
        Seen::Gone(gone) => Renewal::NotRenewed { gone },
    })
}

/// What a read of the session's keys says.
enum Seen {
    /// The inbox was there and is not any more.
    NoInbox,
    /// These claims are not there any more.
    Gone(Vec<GoneClaim>),
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

/// Reads the session's inbox and its claims. Those that wait and are gone are
/// told themselves.
async fn see(engine: &EtcdEngine, open: &OpenLease, claims: Vec<Arc<Mine>>) -> Result<Seen> {
    let (epoch, inbox) = (open.epoch(), look([one(&open.inbox)]));
    let inbox = engine.transact(&inbox, || "renew".to_owned());
    let batches = claims
        .chunks(AT_ONCE)
        .map(|batch| missing_of(engine, batch));
    let (inbox, gone) = tokio::try_join!(inbox, try_join_all(batches))?;
    let inbox = inbox.into_reads().next().unwrap_or_default();
    if !open.see_inbox(&inbox, epoch) {
        return Ok(Seen::NoInbox);
    }
    let gone = gone.concat();
    // Who was rung looks for itself.
    let (held, waiting): (Vec<_>, Vec<_>) = gone.into_iter().partition(|mine| mine.is_held());
    for mine in waiting {
        if let Some(watcher) = mine.watcher() {
            watcher.ring();
        }
    }
    let reports = held.iter().map(|mine| report(engine, mine));
    Ok(Seen::Gone(try_join_all(reports).await?))
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
