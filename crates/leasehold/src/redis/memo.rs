//! Memos: a key of their own beside the lock's, in the same slot.

use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

use super::RedisEngine;
use super::answer::strange;
use super::keys::{Hex, Keys};
use crate::engine::{ClaimRef, Memo, Noted, Reading};
use crate::error::Result;
use crate::fence::Token;
use crate::name::Name;

/// What people could not read, or take for an escape.
const IN_MEMOS: &AsciiSet = &CONTROLS.add(b'%');

/// Writes the memo if the claim holds.
pub(super) async fn write(
    engine: &RedisEngine,
    claim: &ClaimRef,
    memo: &Memo,
    keep: Option<Duration>,
) -> Result<Noted> {
    let keys = Keys::of(&claim.name);
    let [lock, queue, claims] = keys.three();
    let doing = || format!("write the memo of {}", claim.name);
    let bytes = percent_encode(&memo.bytes, IN_MEMOS).to_string();
    let keep = keep.map_or(0, |keep| keep.as_millis()).to_string();
    let (written, doer): (u32, _) = engine
        .server
        .run_noting(
            &engine.scripts.memo_write,
            &[lock, queue, claims, &memo_key(&keys)],
            &[
                Hex::of(claim.id.0).as_str(),
                &memo.token.get().to_string(),
                &memo.edition.to_string(),
                &bytes,
                &keep,
            ],
            doing,
        )
        .await?;
    if written == 0 {
        return Ok(Noted::NotHeld);
    }
    engine.server.confirm(&doer, lock, doing).await?;
    Ok(Noted::Written)
}

pub(super) async fn read(engine: &RedisEngine, name: &Name) -> Result<Reading> {
    let doing = || format!("read the memo of {name}");
    let key = memo_key(&Keys::of(name));
    let answer: Vec<String> = engine
        .server
        .run(&engine.scripts.memo_read, &[&key], &[], doing)
        .await?;
    parse(&answer).ok_or_else(|| strange(doing(), &engine.server.label))
}

fn memo_key(keys: &Keys) -> String {
    format!("{}:m", keys.lock())
}

fn parse(answer: &[String]) -> Option<Reading> {
    let kept = match answer.get(1..)? {
        [] => None,
        [token, edition, bytes] => Some(Memo {
            token: Token::new(token.parse().ok()?),
            edition: edition.parse().ok()?,
            bytes: percent_decode_str(bytes).collect(),
        }),
        _ => return None,
    };
    let time = Duration::from_micros(answer[0].parse().ok()?);
    Some(Reading::of(kept, Some(time)))
}
