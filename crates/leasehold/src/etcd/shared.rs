//! A place in the queue of a lock that more than one may hold: readers and
//! writers, permits. The rule decides over the claims in the order in which the
//! store took them in.

use super::claims::{Mine, OpenLease};
use super::keys::{self, Range};
use super::record::Record;
use super::request::{self, Guard, all, created_at, delete, has_value, one, put, read, written_at};
use super::wire::{KeyValue, RangeResponse, TxnRequest};
use super::{EtcdEngine, conflict, doing, lively, mutex};
use crate::engine::{Standing, Watch};
use crate::error::Result;
use crate::fence::Token;
use crate::rule::{self, Verdict};

/// How many keys of a mutex's queue are looked at in passing.
const FEW: i64 = 8;
/// How often a request is made anew because something changed meanwhile.
const ROUNDS: u32 = 20;

/// What must be so for the claim to be put.
#[derive(Clone, Copy)]
struct Guards {
    /// Of the mutex of the same name, which nobody may have.
    mutex: Guard,
    /// Of our own queue, if the claim is put only where it holds.
    queue: Option<Guard>,
}

/// Puts the claim at the end of the queue.
pub(super) async fn enqueue(
    engine: &EtcdEngine,
    mine: &Mine,
    open: &OpenLease,
    waits: bool,
) -> Result<Standing> {
    let mut guards = Guards {
        mutex: Guard::Empty,
        queue: None,
    };
    for _ in 0..ROUNDS {
        let epoch = open.epoch();
        let request = match (waits, guards.queue) {
            // A try that finds no room writes nothing, so it looks first.
            (false, None) => request::look(reads(mine, open)),
            _ => asking(mine, open, epoch, guards),
        };
        let is_look = request.compare.is_empty();
        let answer = engine.ask_for(mine, &request).await?;
        let revision = answer.revision();
        let is_put = answer.succeeded && !is_look;
        let mut reads = answer.into_reads();
        if is_put {
            mine.stands_at(revision);
            open.has_spoken(epoch, revision);
            let list = reads.next().unwrap_or_default();
            return Ok(judge(engine, mine, revision, revision, list));
        }
        let [ours, inbox, before, after, mutex, list] =
            [(); 6].map(|()| reads.next().unwrap_or_default());
        if !open.see_inbox(&inbox, epoch) {
            return Ok(Standing::Gone);
        }
        if let Some(kv) = ours.kvs.first() {
            mine.stands_at(kv.create_revision);
            return Ok(judge(engine, mine, kv.create_revision, revision, list));
        }
        let mut others = before.kvs.iter().chain(&after.kvs);
        let used = others.find_map(|kv| keys::read_shared(&kv.key));
        if let Some((_, used)) = used {
            return Err(conflict(engine, mine, rule::mismatch(mine.capacity, used)));
        }
        let (kvs, seen) = mutex::whole(engine, mine, mutex, revision).await?;
        if mutex::is_claimed(engine, mine, &kvs)? {
            return Err(conflict(engine, mine, rule::mismatch(mine.capacity, 1)));
        }
        guards.mutex = match kvs.is_empty() {
            true => Guard::Empty,
            false => Guard::NothingNewSince(seen),
        };
        if !waits {
            let mut queue = in_order(&list.kvs);
            queue.push(rule::Claim {
                order: u64::MAX,
                weight: mine.weight,
            });
            if rule::verdict(mine.capacity, &queue, u64::MAX) != Some(Verdict::Held) {
                return Ok(Standing::Busy);
            }
            guards.queue = Some(Guard::NothingNewSince(revision));
        }
    }
    Err(lively(engine, mine))
}

fn asking(mine: &Mine, open: &OpenLease, epoch: i64, guards: Guards) -> TxnRequest {
    let mut compare = vec![
        created_at(&mine.key, 0),
        written_at(&open.inbox, epoch),
        guards.mutex.on(&keys::mutex(&mine.claim.name)),
    ];
    compare.extend(of_other_capacities(mine).map(|range| Guard::Empty.on(&range)));
    compare.extend(guards.queue.map(|guard| guard.on(&mine.queue)));
    let mut success = vec![
        put(&mine.key, &mine.value, open.number),
        read(all(&mine.queue, 0)),
    ];
    success.extend(open.first_word(epoch));
    if rule::is_writer(mine.capacity, mine.weight) {
        // From here on no reader without a lock reads what is whole.
        success.push(delete(&keys::stamp(&mine.claim.name)));
    }
    TxnRequest {
        compare,
        success,
        failure: reads(mine, open).into_iter().map(read).collect(),
    }
}

fn reads(mine: &Mine, open: &OpenLease) -> [super::wire::RangeRequest; 6] {
    let [before, after] = of_other_capacities(mine);
    [
        one(&mine.key),
        one(&open.inbox),
        all(&before, 1),
        all(&after, 1),
        all(&keys::mutex(&mine.claim.name), FEW),
        all(&mine.queue, 0),
    ]
}

fn of_other_capacities(mine: &Mine) -> [Range; 2] {
    keys::shared(&mine.claim.name).around(&mine.queue)
}

/// Says where a claim stands that is in the queue.
pub(super) async fn look(engine: &EtcdEngine, mine: &Mine, order: i64) -> Result<Standing> {
    let request = TxnRequest {
        compare: vec![has_value(&mine.key, &mine.value)],
        success: vec![read(all(&mine.queue, 0))],
        failure: Vec::new(),
    };
    let answer = engine.transact(&request, || doing(&mine.claim)).await?;
    if !answer.succeeded {
        return Ok(Standing::Gone);
    }
    let revision = answer.revision();
    let list = answer.into_reads().next().unwrap_or_default();
    Ok(judge(engine, mine, order, revision, list))
}

fn judge(
    engine: &EtcdEngine,
    mine: &Mine,
    order: i64,
    revision: i64,
    list: RangeResponse,
) -> Standing {
    let queue = in_order(&list.kvs);
    let order = order.unsigned_abs();
    match rule::verdict(mine.capacity, &queue, order) {
        None => Standing::Gone,
        Some(Verdict::Held) => {
            mine.hold();
            Standing::Held {
                token: Token::new(order),
            }
        }
        Some(Verdict::Waiting(watch)) => {
            let one = match watch {
                Watch::One(order) => list.kvs.iter().find(|kv| place(kv) == order),
                Watch::Any => None,
            };
            mine.wait_on(match one {
                Some(kv) => engine.watching.departure(kv, revision + 1),
                None => engine.watching.departures(mine.queue.clone(), revision + 1),
            });
            let ahead = queue.iter().filter(|claim| claim.order < order).count();
            Standing::Waiting {
                watch,
                ahead: u32::try_from(ahead).unwrap_or(u32::MAX),
            }
        }
    }
}

/// The claims as the rule wants them.
pub(super) fn in_order(kvs: &[KeyValue]) -> Vec<rule::Claim> {
    let claim = |kv: &KeyValue| rule::Claim {
        order: place(kv),
        weight: Record::of(kv).weight,
    };
    let mut queue: Vec<_> = kvs.iter().map(claim).collect();
    queue.sort_unstable_by_key(|claim| claim.order);
    queue
}

fn place(kv: &KeyValue) -> u64 {
    kv.create_revision.unsigned_abs()
}
