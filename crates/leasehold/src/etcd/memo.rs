//! Memos: a key of their own, without a lease. A write names the revision that
//! made the claim and the one that last wrote the memo, in one transaction.

use super::keys;
use super::request::{created_at, look, one, put, read, written_at};
use super::wire::{KeyValue, TxnRequest};
use super::{EtcdEngine, lively};
use crate::engine::{ClaimRef, Memo, Noted, Reading};
use crate::error::Result;
use crate::memo::unreadable;
use crate::name::Name;

/// How often a request is made anew because the memo changed meanwhile.
const ROUNDS: u32 = 20;

/// Writes the memo if the claim is there.
pub(super) async fn write(engine: &EtcdEngine, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
    let Some(mine) = engine.claims.claim(claim.id) else {
        return Ok(Noted::NotHeld);
    };
    let is_ours = |order: &i64| mine.is_held() && memo.is_of(order.unsigned_abs(), 1);
    let Some(order) = mine.order().filter(is_ours) else {
        return Ok(Noted::NotHeld);
    };
    let key = keys::memo(&claim.name);
    let doing = || format!("write the memo of {}", claim.name);
    // Mostly there is none, or the answer says which.
    let mut last = 0;
    for _ in 0..ROUNDS {
        let request = TxnRequest {
            compare: vec![created_at(&mine.key, order), written_at(&key, last)],
            success: vec![put(&key, &memo.to_record(), 0)],
            failure: vec![read(one(&key)), read(one(&mine.key))],
        };
        let answer = engine.transact(&request, doing).await?;
        if answer.succeeded {
            return Ok(Noted::Written);
        }
        let mut reads = answer.into_reads();
        let [found, ours] = [(); 2].map(|()| reads.next().unwrap_or_default());
        let found = found.kvs.first();
        // The first of two requests wrote it, or a later one of this hold did.
        let is_ours = |known: &Memo| known.token == memo.token && known.edition >= memo.edition;
        if found
            .and_then(read_value)
            .is_some_and(|known| is_ours(&known))
        {
            return Ok(Noted::Written);
        }
        if ours
            .kvs
            .first()
            .is_none_or(|kv| kv.create_revision != order)
        {
            return Ok(Noted::NotHeld);
        }
        last = found.map_or(0, |kv| kv.mod_revision);
    }
    Err(lively(engine, &mine))
}

pub(super) async fn read_memo(engine: &EtcdEngine, name: &Name) -> Result<Reading> {
    let request = look([one(&keys::memo(name))]);
    let doing = || format!("read the memo of {name}");
    let answer = engine.transact(&request, doing).await?;
    let found = answer.into_reads().next().unwrap_or_default();
    let kept = found.kvs.first().map(|kv| {
        read_value(kv).ok_or_else(|| unreadable(doing()).on(&*engine.members.label))
    });
    // etcd tells nobody what time it is.
    Ok(Reading::of(kept.transpose()?, None))
}

fn read_value(kv: &KeyValue) -> Option<Memo> {
    Memo::from_record(&kv.value)
}
