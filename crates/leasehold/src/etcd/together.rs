//! Several free mutexes in one transaction.

use std::sync::Arc;

use super::claims::{Mine, OpenLease};
use super::keys::{self, Sort};
use super::request::{Guard, all, created_at, one, put, read, written_at};
use super::wire::{RangeResponse, TxnRequest};
use super::{EtcdEngine, TXN};
use crate::engine::{Ticket, Together};
use crate::error::{Effect, Result};
use crate::fence::Token;

/// The server takes 128 conditions in one transaction: three for each lock, and
/// one for the inbox.
const MOST: usize = 40;
/// How often a request is made anew because the inbox was written.
const ROUNDS: u32 = 5;
/// How many keys of a queue are looked at to see whether it is claimed.
const FEW: i64 = 8;

/// Grants all or none of these claims.
pub(super) async fn enqueue_all(engine: &EtcdEngine, tickets: &[Ticket]) -> Result<Together> {
    let lease = tickets.first().map(|ticket| ticket.lease);
    let Some(open) = lease.and_then(|lease| engine.claims.lease(lease)) else {
        return Ok(Together::Separately);
    };
    let is_ours = |ticket: &Ticket| ticket.capacity == 1 && !keys::is_reserved(&ticket.claim.name);
    if tickets.len() > MOST || !tickets.iter().all(is_ours) {
        return Ok(Together::Separately);
    }
    let admit = |ticket| engine.claims.admit(ticket, &open.owner);
    let mines: Vec<_> = tickets.iter().map(admit).collect();
    mines.iter().for_each(|mine| mine.asked());
    let answer = ask(engine, &mines, &open).await;
    if !matches!(&answer, Err(error) if error.effect() == Effect::Unknown) {
        mines.iter().for_each(|mine| mine.answered());
    }
    let answer = answer?;
    if !matches!(answer, Together::Held(_)) {
        for mine in &mines {
            // Nobody withdraws what was not given, so nothing may be left that
            // could still come.
            if mine.is_in_doubt() {
                engine.leave(mine).await?;
            }
            engine.claims.forget(mine.claim.id);
        }
    }
    Ok(answer)
}

async fn ask(engine: &EtcdEngine, mines: &[Arc<Mine>], open: &OpenLease) -> Result<Together> {
    for _ in 0..ROUNDS {
        let epoch = open.epoch();
        let request = asking(mines, open, epoch);
        let doing = || format!("lock {} and others", mines[0].claim.name);
        let asked = engine.members.ask_noting(TXN, &request, doing).await;
        let asked = match asked {
            Err(error) if super::is_lease_gone(&error) => return Ok(Together::Separately),
            asked => asked?,
        };
        let answer: super::wire::TxnResponse = asked.answer;
        if asked.is_repeated {
            mines.iter().for_each(|mine| mine.asked());
        }
        if answer.succeeded {
            open.has_spoken(epoch, answer.revision());
            return Ok(held(mines, answer.revision()));
        }
        let mut reads = answer.into_reads();
        let inbox = reads.next().unwrap_or_default();
        if !open.see_inbox(&inbox, epoch) {
            return Ok(Together::Separately);
        }
        let found: Vec<_> = mines
            .iter()
            .map(|_| [(); 2].map(|()| reads.next().unwrap_or_default()))
            .collect();
        // The answer to the first of two requests was lost.
        if let Some(revision) = all_ours(mines, &found) {
            return Ok(held(mines, revision));
        }
        let mut queues = mines.iter().zip(&found);
        if queues.any(|(mine, [_, queue])| is_claimed(mine, queue)) {
            return Ok(Together::Busy);
        }
        if open.epoch() == epoch {
            // Something else is in the way; one by one it is named.
            return Ok(Together::Separately);
        }
    }
    Ok(Together::Separately)
}

fn asking(mines: &[Arc<Mine>], open: &OpenLease, epoch: i64) -> TxnRequest {
    let mut compare = vec![written_at(&open.inbox, epoch)];
    let mut success = Vec::new();
    let mut failure = vec![read(one(&open.inbox))];
    for mine in mines {
        compare.push(created_at(&mine.key, 0));
        compare.push(Guard::Empty.on(&keys::shared(&mine.claim.name)));
        compare.push(Guard::Empty.on(&mine.queue));
        success.push(put(&mine.key, &mine.value, open.number));
        failure.push(read(one(&mine.key)));
        failure.push(read(all(&mine.queue, FEW)));
    }
    success.extend(open.first_word(epoch));
    TxnRequest {
        compare,
        success,
        failure,
    }
}

fn held(mines: &[Arc<Mine>], revision: i64) -> Together {
    for mine in mines {
        mine.stands_at(revision);
        mine.hold();
    }
    let token = Token::new(revision.unsigned_abs());
    Together::Held(vec![token; mines.len()])
}

/// The revision that made all of these claims, if they are there.
fn all_ours(mines: &[Arc<Mine>], found: &[[RangeResponse; 2]]) -> Option<i64> {
    let made = |(mine, [ours, _]): (&Arc<Mine>, &[RangeResponse; 2])| {
        let kv = ours.kvs.first().filter(|kv| kv.value == mine.value)?;
        Some(kv.create_revision)
    };
    let made: Option<Vec<_>> = mines.iter().zip(found).map(made).collect();
    made?.first().copied()
}

fn is_claimed(mine: &Mine, queue: &RangeResponse) -> bool {
    let mut kvs = queue.kvs.iter();
    kvs.any(|kv| {
        kv.value != mine.value && keys::sort(&mine.queue, &kv.key, kv.lease) == Sort::Claim
    })
}
