//! Memos: a key of their own, without a lease, or with one that is not the
//! session's. A write names the revision that made the claim and the one that last
//! wrote the memo, in one transaction.

use std::time::Duration;

use super::keys;
use super::request::{created_at, look, one, put, read, written_at};
use super::wire::{KeyValue, TxnRequest, TxnResponse};
use super::{EtcdEngine, TXN, is_lease_gone, lively};
use crate::engine::{ClaimRef, Memo, Noted, Reading};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::memo::unreadable;
use crate::name::Name;

/// How often a request is made anew because the memo changed meanwhile.
const ROUNDS: u32 = 20;

/// Writes the memo if the claim is there.
pub(super) async fn write(
    engine: &EtcdEngine,
    claim: &ClaimRef,
    memo: &Memo,
    keep: Option<Duration>,
) -> Result<Noted> {
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
    let (mut last, mut is_repeated) = (0, false);
    // A request that one member did not answer may have been done, whatever
    // another one says later.
    let in_doubt = |error: Error, is_repeated: bool| match is_repeated {
        true => error.effect_is(Effect::Unknown),
        false => error,
    };
    let mut lease = 0;
    for _ in 0..ROUNDS {
        if let Some(keep) = keep.filter(|_| lease == 0) {
            let granted = engine.keeping.lease(engine, keep, doing).await;
            lease = granted.map_err(|error| in_doubt(error, is_repeated))?;
        }
        let request = TxnRequest {
            compare: vec![created_at(&mine.key, order), written_at(&key, last)],
            success: vec![put(&key, &memo.to_record(), lease)],
            failure: vec![read(one(&key)), read(one(&mine.key))],
        };
        let asked = engine.members.ask_noting(TXN, &request, doing).await;
        // This process may have slept, or somebody revoked it. The server looks
        // for the lease before it does anything.
        if lease != 0 && matches!(&asked, Err(error) if is_lease_gone(error)) {
            engine.keeping.forget(lease);
            lease = 0;
            continue;
        }
        let asked = asked.map_err(|error| in_doubt(error, is_repeated))?;
        is_repeated |= asked.is_repeated;
        let answer: TxnResponse = asked.answer;
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
            if !is_repeated {
                engine.keeping.give_back(engine, lease).await;
                return Ok(Noted::NotHeld);
            }
            let why = "the claim is gone, and a request before that was not answered";
            let error = Error::new(ErrorKind::Unavailable, doing(), why);
            return Err(in_doubt(error.on(&*engine.members.label), true));
        }
        last = found.map_or(0, |kv| kv.mod_revision);
    }
    Err(in_doubt(lively(engine, &mine), is_repeated))
}

pub(super) async fn read_memo(engine: &EtcdEngine, name: &Name) -> Result<Reading> {
    let request = look([one(&keys::memo(name))]);
    let doing = || format!("read the memo of {name}");
    let answer = engine.transact(&request, doing).await?;
    let found = answer.into_reads().next().unwrap_or_default();
    let strange = || unreadable(doing()).on(&*engine.members.label);
    let kept = found
        .kvs
        .first()
        .map(|kv| read_value(kv).ok_or_else(strange));
    // etcd tells nobody what time it is.
    Ok(Reading::of(kept.transpose()?, None))
}

fn read_value(kv: &KeyValue) -> Option<Memo> {
    Memo::from_record(&kv.value)
}
