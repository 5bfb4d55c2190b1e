//! A place in a mutex's queue, by the recipe that Go's client has.

use super::claims::{Mine, OpenLease};
use super::keys::{self, Range, Sort};
use super::request::{
    self, Guard, all, created_at, delete, has_value, last_before, one, put, read, written_at,
};
use super::wire::{KeyValue, RangeResponse, TxnRequest, TxnResponse};
use super::{EtcdEngine, conflict, doing, garbled, lively, tail};
use crate::engine::{Standing, Watch};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::rule;

/// How many keys of a queue are looked at in passing: enough to know a short
/// queue in one round trip.
const FEW: i64 = 8;
/// How often a request is made anew because something changed meanwhile.
const ROUNDS: u32 = 20;

/// Puts the claim at the end of the queue.
pub(super) async fn enqueue(
    engine: &EtcdEngine,
    mine: &Mine,
    open: &OpenLease,
    waits: bool,
) -> Result<Standing> {
    let mut free = Free::default();
    for _ in 0..ROUNDS {
        let epoch = open.epoch();
        let request = asking(mine, open, epoch, (!waits).then_some(free));
        let answer = engine.ask_for(mine, &request).await?;
        let revision = answer.revision();
        let is_put = answer.succeeded;
        let mut reads = answer.into_reads();
        if is_put {
            mine.stands_at(revision);
            open.has_spoken(epoch, revision);
            if !waits {
                // A try is put only where there is nobody.
                return Ok(held(mine, revision));
            }
            let list = reads.next().ok_or_else(|| garbled(engine, mine))?;
            return judge(engine, mine, open, revision, list).await;
        }
        let [ours, inbox, shared, list] = [(); 4].map(|()| reads.next().unwrap_or_default());
        if !open.see_inbox(&inbox, epoch) {
            return Ok(Standing::Gone);
        }
        if open.epoch() != epoch {
            continue;
        }
        if let Some(other) = shared.kvs.first() {
            let used = keys::read_shared(&other.key).map_or(0, |(_, capacity)| capacity);
            let why = rule::mismatch(mine.capacity, used);
            return Err(conflict(engine, mine, why));
        }
        match ours.kvs.first() {
            Some(kv) if kv.value == mine.value => {
                mine.stands_at(kv.create_revision);
                return judge(engine, mine, open, revision, list).await;
            }
            Some(kv) => take_out(engine, mine, kv).await?,
            None if waits => {}
            None if is_claimed(engine, mine, &list.kvs)? => return Ok(Standing::Busy),
            None => match whole(engine, mine, list, revision).await? {
                (kvs, _) if is_claimed(engine, mine, &kvs)? => return Ok(Standing::Busy),
                // Only locks below this one: they are not in our way, unless
                // somebody comes between.
                (kvs, seen) => free = Free::as_seen(&kvs, seen),
            },
        }
    }
    Err(lively(engine, mine))
}

/// What must be so for a try to be put.
#[derive(Clone, Copy)]
struct Free {
    queue: Guard,
    /// A queue that was never long has no tail. Asked first, it spares the
    /// server to read a long queue, only to see that there is one.
    has_no_tail: bool,
}

impl Default for Free {
    fn default() -> Self {
        Self {
            queue: Guard::Empty,
            has_no_tail: true,
        }
    }
}

impl Free {
    /// There was nobody.
    fn as_seen(kvs: &[KeyValue], revision: i64) -> Self {
        let queue = match kvs.is_empty() {
            true => Guard::Empty,
            false => Guard::NothingNewSince(revision),
        };
        Self {
            queue,
            has_no_tail: false,
        }
    }
}

fn asking(mine: &Mine, open: &OpenLease, epoch: i64, free: Option<Free>) -> TxnRequest {
    let shared = keys::shared(&mine.claim.name);
    let mut compare = vec![
        created_at(&mine.key, 0),
        written_at(&open.inbox, epoch),
        Guard::Empty.on(&shared),
    ];
    let mut success = vec![put(&mine.key, &mine.value, open.number)];
    success.extend(open.first_word(epoch));
    match free {
        Some(free) => {
            let tail = || created_at(&keys::tail(&mine.claim.name), 0);
            compare.extend(free.has_no_tail.then(tail));
            compare.push(free.queue.on(&mine.queue));
        }
        None => success.push(read(all(&mine.queue, FEW))),
    }
    let failure = [
        one(&mine.key),
        one(&open.inbox),
        all(&shared, 1),
        all(&mine.queue, FEW),
    ];
    TxnRequest {
        compare,
        success,
        failure: failure.into_iter().map(read).collect(),
    }
}

/// Says where a claim stands that is in the queue. Alive and first: one request
/// says both.
pub(super) async fn look(engine: &EtcdEngine, mine: &Mine, order: i64) -> Result<Standing> {
    let request = TxnRequest {
        compare: vec![has_value(&mine.key, &mine.value)],
        success: vec![read(last_before(&mine.queue, order))],
        failure: Vec::new(),
    };
    let answer = engine.transact(&request, || doing(&mine.claim)).await?;
    if !answer.succeeded {
        return Ok(Standing::Gone);
    }
    let revision = answer.revision();
    // No answer to the question is not the answer that nobody is there.
    let before = answer.into_reads().next();
    let before = before.ok_or_else(|| garbled(engine, mine))?;
    match before.kvs.first() {
        None => Ok(held(mine, order)),
        Some(kv) if keys::sort(&mine.queue, &kv.key, kv.lease) == Sort::Claim => {
            Ok(wait_for(engine, mine, kv, revision, before.count))
        }
        Some(_) => {
            let (kvs, revision) = whole(engine, mine, before, revision).await?;
            judge_whole(engine, mine, order, revision, &kvs)
        }
    }
}

/// Says where a claim stands by a list that was read with it.
async fn judge(
    engine: &EtcdEngine,
    mine: &Mine,
    open: &OpenLease,
    revision: i64,
    list: RangeResponse,
) -> Result<Standing> {
    let order = mine.order().unwrap_or(revision);
    if is_whole(&list) {
        return judge_whole(engine, mine, order, revision, &list.kvs);
    }
    if list.count >= tail::LONG
        && let Some((kv, at)) = tail::somebody_before(engine, mine, open, order).await?
    {
        return Ok(wait_for(engine, mine, &kv, at, list.count - 1));
    }
    look(engine, mine, order).await
}

fn judge_whole(
    engine: &EtcdEngine,
    mine: &Mine,
    order: i64,
    revision: i64,
    kvs: &[KeyValue],
) -> Result<Standing> {
    let before = kvs.iter().filter(|kv| kv.create_revision < order);
    let before = claims(engine, mine, before)?;
    Ok(match before.iter().max_by_key(|kv| kv.create_revision) {
        None => held(mine, order),
        Some(last) => {
            let ahead = i64::try_from(before.len()).unwrap_or(i64::MAX);
            wait_for(engine, mine, last, revision, ahead)
        }
    })
}

fn held(mine: &Mine, order: i64) -> Standing {
    mine.hold();
    Standing::Held {
        token: Token::new(order.unsigned_abs()),
    }
}

fn wait_for(
    engine: &EtcdEngine,
    mine: &Mine,
    kv: &KeyValue,
    revision: i64,
    ahead: i64,
) -> Standing {
    mine.wait_on(engine.watching.departure(kv, revision + 1));
    Standing::Waiting {
        watch: Watch::One(kv.create_revision.unsigned_abs()),
        ahead: u32::try_from(ahead).unwrap_or(u32::MAX),
    }
}

fn is_whole(list: &RangeResponse) -> bool {
    usize::try_from(list.count).is_ok_and(|count| count <= list.kvs.len())
}

/// All keys below the mutex, and the revision at which they were read.
pub(super) async fn whole(
    engine: &EtcdEngine,
    mine: &Mine,
    list: RangeResponse,
    revision: i64,
) -> Result<(Vec<KeyValue>, i64)> {
    if is_whole(&list) {
        return Ok((list.kvs, revision));
    }
    let range = keys::mutex(&mine.claim.name);
    let request = request::look([all(&range, 0)]);
    let answer = engine.transact(&request, || doing(&mine.claim)).await?;
    let revision = answer.revision();
    let list = answer.into_reads().next().unwrap_or_default();
    Ok((list.kvs, revision))
}

/// The claims among these keys. One that is neither a claim nor of a lock below
/// would block other programs for ever, and is told of.
fn claims<'a>(
    engine: &EtcdEngine,
    mine: &Mine,
    kvs: impl Iterator<Item = &'a KeyValue>,
) -> Result<Vec<&'a KeyValue>> {
    let range = keys::mutex(&mine.claim.name);
    let mut claims = Vec::new();
    for kv in kvs {
        match keys::sort(&range, &kv.key, kv.lease) {
            Sort::Claim => claims.push(kv),
            Sort::Below => {}
            Sort::Foreign => {
                let key = String::from_utf8_lossy(&kv.key);
                let why = format!("the key {key:?} is in its queue and no claim; delete it");
                return Err(conflict(engine, mine, why));
            }
        }
    }
    Ok(claims)
}

/// Whether somebody has a claim on the mutex of this name.
pub(super) fn is_claimed(engine: &EtcdEngine, mine: &Mine, kvs: &[KeyValue]) -> Result<bool> {
    Ok(!claims(engine, mine, kvs.iter())?.is_empty())
}

/// Takes out what stands at this claim's key: one of this session that nobody
/// here knows any more.
async fn take_out(engine: &EtcdEngine, mine: &Mine, kv: &KeyValue) -> Result<()> {
    let request = TxnRequest {
        compare: vec![created_at(&mine.key, kv.create_revision)],
        success: vec![delete(&mine.key)],
        failure: Vec::new(),
    };
    let _: TxnResponse = engine.transact(&request, || doing(&mine.claim)).await?;
    Ok(())
}

/// Whether a key is a claim on the mutex, for people.
pub(super) fn is_claim(range: &Range, kv: &KeyValue) -> bool {
    keys::sort(range, &kv.key, kv.lease) == Sort::Claim
}

/// A name that is ours.
pub(super) fn refuse_reserved(engine: &EtcdEngine, mine: &Mine) -> Result<()> {
    if keys::is_reserved(&mine.claim.name) {
        let why = "names that start with leasehold/ are for leasehold itself";
        let error = Error::new(ErrorKind::Usage, doing(&mine.claim), why);
        return Err(error.on(&*engine.members.label));
    }
    Ok(())
}
