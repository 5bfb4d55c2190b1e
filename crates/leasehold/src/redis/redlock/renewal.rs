//! Keeping what we hold: by a majority of all nodes, or not at all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{RedisError, Value};
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};

use super::RedlockEngine;
use super::claims::{Mine, OpenLease};
use super::fan::Fan;
use super::keys::NODE;
use super::nodes::{Call, Node, RUN};
use crate::clock::{Moment, boot_time};
use crate::engine::GoneClaim;
use crate::guard::Lost;
use crate::redis::keys::{Hex, unfield};
use crate::redis::{lock, whole_millis};
use crate::redlock::quorum::{Kept, renewed};

/// How many claims one request renews.
const BATCH: usize = 500;
/// How long answers may take after a node told of a change, at first.
const SOON: Duration = Duration::from_millis(20);

/// How many nodes said what of one claim.
#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    yes: usize,
    no: usize,
}

/// Renews these claims. Says whether all of them were kept or are lost, and
/// which are.
pub(super) async fn renew(
    engine: &RedlockEngine,
    open: &OpenLease,
    claims: &[Arc<Mine>],
    with_notes: bool,
) -> (bool, Vec<GoneClaim>) {
    let sent = boot_time();
    // A renewal has a sixth of the ttl, and may have to ask who broke what.
    let until = sent + open.lease.ttl / 8;
    let votes = ask_all(engine, open, claims, with_notes, until).await;
    let count = engine.nodes.all.len();
    let kept: Vec<_> = votes
        .iter()
        .map(|votes| renewed(count, votes.yes, votes.no))
        .collect();
    let some_are_kept = kept.contains(&Kept::Yes);
    let (mut is_known, mut lost) = (true, Vec::new());
    for (mine, kept) in claims.iter().zip(kept) {
        match kept {
            Kept::Yes => mine.renewed(sent),
            // It was given back meanwhile.
            _ if !mine.is_held() => {}
            Kept::No => lost.push(mine),
            // The others must not be lost for the sake of one that has been on
            // too few nodes for long.
            Kept::Unknown if some_are_kept && mine.age(sent) > open.lease.ttl / 2 => {
                lost.push(mine);
            }
            Kept::Unknown => is_known = false,
        }
    }
    let notes = evictions_of(engine, &lost, open.lease.ttl / 24).await;
    let gone = lost.iter().zip(notes).map(|(mine, note)| GoneClaim {
        id: mine.claim.id,
        lost: match note {
            Some(_) => Lost::Evicted,
            None => Lost::Gone,
        },
        note,
    });
    (is_known, gone.collect())
}

/// Asks the nodes, and asks again if they tell of a change that may be newer than
/// their answers. Somebody who breaks a lock tells one node after the other, and
/// each calls us: if one hangs, those that answered before they were told would
/// leave it undecided until the limit.
async fn ask_all(
    engine: &RedlockEngine,
    open: &OpenLease,
    claims: &[Arc<Mine>],
    with_notes: bool,
    until: Moment,
) -> Vec<Votes> {
    let mut patience = SOON;
    // What was told before the first request leaves, its answers know.
    let _ = open.changes.notified().now_or_never();
    loop {
        let rounds = claims.chunks(BATCH);
        let rounds = rounds.map(|batch| renew_batch(engine, open, batch, with_notes, until));
        let round = join_all(rounds);
        tokio::pin!(round);
        let votes = tokio::select! {
            biased;
            votes = &mut round => Some(votes),
            () = open.changes.notified() => {
                tokio::time::timeout(patience, &mut round).await.ok()
            }
        };
        if let Some(votes) = votes {
            return votes.into_iter().flatten().collect();
        }
        // However many changes there are, they do not keep us from an end.
        patience *= 2;
    }
}

/// Renews one claim, and says whether a majority keeps it.
pub(super) async fn renew_one(engine: &RedlockEngine, open: &OpenLease, mine: &Arc<Mine>) -> bool {
    let sent = boot_time();
    let until = sent + open.lease.ttl / 8;
    let votes = renew_batch(engine, open, std::slice::from_ref(mine), false, until).await;
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
    until: Moment,
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
    let make = |node: &Node, server: &str| call.command(node, server);
    let mut answers = Fan::send(nodes, 0..nodes.all.len(), call.script, &make);
    let mut votes = vec![Votes::default(); batch.len()];
    let limit = tokio::time::sleep(until.since(boot_time()));
    tokio::pin!(limit);
    loop {
        let reply = tokio::select! {
            biased;
            reply = answers.next() => reply,
            () = &mut limit => return votes,
        };
        let Some(reply) = reply else { return votes };
        let number = reply.node;
        let Some(answer) = read(&nodes.all[number], reply.answer) else {
            continue;
        };
        if nodes.twin_of(&nodes.all[number]).is_some() {
            // The server has one vote, whatever leads to it.
            continue;
        }
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
fn read(node: &Node, answer: Result<Value, RedisError>) -> Option<Vec<bool>> {
    let answer: Vec<String> = ::redis::from_redis_value(answer.ok()?).ok()?;
    let (now, ours) = answer.split_first()?;
    node.link.learn_time(now.parse().ok()?);
    Some(ours.iter().map(|is_ours| is_ours == "1").collect())
}

/// `by NAME: REASON` for each of these claims that any node says was broken, as
/// far as the nodes tell in time.
async fn evictions_of(
    engine: &RedlockEngine,
    lost: &[&Arc<Mine>],
    limit: Duration,
) -> Vec<Option<String>> {
    let records = Mutex::new(vec![None; lost.len()]);
    let asking = lost.iter().enumerate().map(|(number, mine)| {
        let records = &records;
        async move {
            let id = mine.id();
            let mut range = ::redis::cmd("LRANGE");
            range.arg(&mine.keys.evictions).arg(0).arg(-1);
            let range = &range;
            let nodes = &engine.nodes;
            let mut answers = nodes.ask(0..nodes.all.len(), |node| {
                let link = node.link.clone();
                async move { link.ask::<Vec<String>>(range).await }
            });
            while let Some((_, answer)) = answers.next().await {
                let found = answer
                    .ok()
                    .and_then(|broken| reason(&broken, id.as_ref()?.as_str()));
                if found.is_some() {
                    lock(records)[number] = found;
                    return;
                }
            }
        }
    });
    let _ = tokio::time::timeout(limit, join_all(asking)).await;
    records.into_inner().unwrap_or_default()
}

fn reason(broken: &[String], id: &str) -> Option<String> {
    broken.iter().find_map(|record| {
        let fields: Vec<_> = record.split(' ').collect();
        match fields[..] {
            [_, broken, .., by, reason] if broken == id => {
                Some(format!("by {}: {}", unfield(by), unfield(reason)))
            }
            _ => None,
        }
    })
}
