//! Keeping what we hold: by a majority of all nodes, or not at all.

use std::sync::Arc;
use std::time::Duration;

use ::redis::RedisError;
use futures_util::StreamExt;

use super::RedlockEngine;
use super::claims::{Mine, OpenLease};
use super::keys::NODE;
use super::nodes::{Call, Node, RUN};
use crate::clock::boot_time;
use crate::engine::GoneClaim;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guard::Lost;
use crate::redis::keys::{Hex, unfield};
use crate::redis::whole_millis;
use crate::redlock::quorum::{Kept, renewed};

/// How many claims one request renews.
const BATCH: usize = 500;

/// How many nodes said what of one claim.
#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    yes: usize,
    no: usize,
}

/// Renews these claims. Says which are lost; an error if that is not known of
/// any of them and a majority did not answer.
pub(super) async fn renew(
    engine: &RedlockEngine,
    open: &OpenLease,
    claims: &[Arc<Mine>],
    with_notes: bool,
) -> Result<Vec<GoneClaim>> {
    let sent = boot_time();
    let rounds = claims.chunks(BATCH);
    let rounds = rounds.map(|batch| renew_batch(engine, open, batch, with_notes));
    let votes = futures_util::future::join_all(rounds).await;
    let count = engine.nodes.all.len();
    let kept = votes.into_iter().flatten();
    let kept: Vec<_> = kept
        .map(|votes| renewed(count, votes.yes, votes.no))
        .collect();
    let some_are_kept = kept.contains(&Kept::Yes);
    let mut gone = Vec::new();
    for (mine, kept) in claims.iter().zip(kept) {
        match kept {
            Kept::Yes => mine.renewed(sent),
            // It was given back meanwhile.
            _ if !mine.is_held() => {}
            Kept::No => gone.push(look_up(engine, open, mine).await),
            // The others must not be lost for the sake of one that has been on
            // too few nodes for long.
            Kept::Unknown if some_are_kept && mine.age(sent) > open.lease.ttl / 2 => {
                gone.push(look_up(engine, open, mine).await);
            }
            Kept::Unknown => return Err(too_few(engine)),
        }
    }
    Ok(gone)
}

/// Renews one claim, and says whether a majority keeps it.
pub(super) async fn renew_one(engine: &RedlockEngine, open: &OpenLease, mine: &Arc<Mine>) -> bool {
    let sent = boot_time();
    let votes = renew_batch(engine, open, std::slice::from_ref(mine), false).await;
    let is_kept = renewed(engine.nodes.all.len(), votes[0].yes, votes[0].no) == Kept::Yes;
    if is_kept {
        mine.renewed(sent);
    }
    is_kept
}

async fn renew_batch(
    engine: &RedlockEngine,
    open: &OpenLease,
    batch: &[Arc<Mine>],
    with_notes: bool,
) -> Vec<Votes> {
    let nodes = &*engine.nodes;
    let ids: Vec<_> = batch.iter().map(|mine| mine.id()).collect();
    let ids: Vec<_> = ids
        .iter()
        .map(|id| id.as_ref().map_or("", Hex::as_str))
        .collect();
    let locks = batch.iter().map(|mine| &*mine.keys.lock);
    let notes = batch.iter().map(|mine| &*mine.keys.note);
    let notes = notes.filter(|_| with_notes);
    let keys: Vec<_> = std::iter::once(NODE).chain(locks).chain(notes).collect();
    let (ttl, note) = (whole_millis(open.lease.ttl).to_string(), open.note_millis());
    let run = if nodes.uses_tokens { RUN } else { "" };
    let arguments: Vec<_> = [&*ttl, run, &*note].into_iter().chain(ids).collect();
    let call = Call {
        script: &nodes.scripts.renew,
        keys: &keys,
        arguments: &arguments,
    };
    let call = &call;
    let mut answers = nodes.ask(0..nodes.all.len(), |node| ask(node, call));
    let mut votes = vec![Votes::default(); batch.len()];
    let limit = tokio::time::sleep(open.limit.max(open.lease.ttl / 12));
    tokio::pin!(limit);
    loop {
        let (_, answer) = tokio::select! {
            biased;
            Some(answer) = answers.next() => answer,
            () = &mut limit => return votes,
            else => return votes,
        };
        let Ok(Some(answer)) = answer else { continue };
        for (votes, is_ours) in votes.iter_mut().zip(answer) {
            match is_ours {
                true => votes.yes += 1,
                false => votes.no += 1,
            }
        }
        let is_known = |votes: &Votes| {
            let count = nodes.all.len();
            renewed(count, votes.yes, votes.no) != Kept::Unknown
        };
        if votes.iter().all(is_known) {
            return votes;
        }
    }
}

/// Whether each lock is ours on this node; `None` if the node does not count.
async fn ask(node: &Node, call: &Call<'_>) -> Result<Option<Vec<bool>>, RedisError> {
    let answer: Vec<String> = node.run(call).await?;
    let Some((now, ours)) = answer.split_first() else {
        return Ok(None);
    };
    let Ok(now) = now.parse() else {
        return Ok(None);
    };
    node.link.learn_time(now);
    Ok(Some(ours.iter().map(|is_ours| is_ours == "1").collect()))
}

fn too_few(engine: &RedlockEngine) -> Error {
    let why = "a majority of the nodes did not answer";
    Error::new(ErrorKind::Unavailable, "renew", why)
        .on(&*engine.nodes.label)
        .effect_is(Effect::Unknown)
}

/// A claim that is not there any more, and who broke it if that was so.
async fn look_up(engine: &RedlockEngine, open: &OpenLease, mine: &Mine) -> GoneClaim {
    let note = match mine.id() {
        Some(id) => eviction_of(engine, mine, &id, open.limit).await,
        None => None,
    };
    GoneClaim {
        id: mine.claim.id,
        lost: match note {
            Some(_) => Lost::Evicted,
            None => Lost::Gone,
        },
        note,
    }
}

/// `by NAME: REASON`, if any node says that the claim was broken.
async fn eviction_of(
    engine: &RedlockEngine,
    mine: &Mine,
    id: &Hex,
    limit: Duration,
) -> Option<String> {
    let mut range = ::redis::cmd("LRANGE");
    range.arg(&mine.keys.evictions).arg(0).arg(-1);
    let range = &range;
    let ask = |node: &'_ Node| {
        let link = node.link.clone();
        async move { link.ask::<Vec<String>>(range).await }
    };
    let answers = engine.nodes.ask_all(limit, ask).await;
    let records = answers.into_iter().flatten().flatten();
    records.into_iter().find_map(|record| {
        let fields: Vec<_> = record.split(' ').collect();
        match fields[..] {
            [_, broken, .., by, reason] if broken == id.as_str() => {
                Some(format!("by {}: {}", unfield(by), unfield(reason)))
            }
            _ => None,
        }
    })
}
