//! Who came last into a long queue. To find whom a claim comes after, the
//! server would read and sort all of it. So whoever comes into a long queue
//! leaves its name at the tail and finds there the name of the one before it.
//!
//! What is found there is only a claim that came earlier and is still there:
//! when it goes, the queue itself says who holds.

use super::claims::{Mine, OpenLease};
use super::request::{look, one, put, read};
use super::wire::{KeyValue, TxnRequest};
use super::{EtcdEngine, doing, keys};
use crate::error::Result;

/// A queue of fewer claims is read as fast as the tail.
pub(super) const LONG: i64 = 200;

/// A claim that stands before this one, and the revision at which it was there.
pub(super) async fn somebody_before(
    engine: &EtcdEngine,
    mine: &Mine,
    open: &OpenLease,
    order: i64,
) -> Result<Option<(KeyValue, i64)>> {
    let tail = keys::tail(&mine.claim.name);
    let request = TxnRequest {
        success: vec![
            read(one(&tail)),
            put(&tail, &write(order, &mine.key), open.number),
        ],
        ..TxnRequest::default()
    };
    let answer = engine.transact(&request, || doing(&mine.claim)).await?;
    let found = answer.into_reads().next().unwrap_or_default();
    let last = found.kvs.first().and_then(|kv| parse(&kv.value));
    let Some((revision, key)) = last.filter(|(revision, _)| *revision < order) else {
        return Ok(None);
    };
    let request = look([one(&key)]);
    let answer = engine.transact(&request, || doing(&mine.claim)).await?;
    let at = answer.revision();
    let found = answer.into_reads().next().unwrap_or_default();
    let mut kvs = found.kvs.into_iter();
    let kv = kvs.find(|kv| kv.create_revision == revision);
    Ok(kv.map(|kv| (kv, at)))
}

/// `revision key`.
fn write(order: i64, key: &[u8]) -> Vec<u8> {
    let mut value = format!("{order} ").into_bytes();
    value.extend(key);
    value
}

fn parse(value: &[u8]) -> Option<(i64, Vec<u8>)> {
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (order, key) = value.split_at(space);
    let order = std::str::from_utf8(order).ok()?.parse().ok()?;
    Some((order, key[1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_read_back_as_it_was_written() {
        let value = write(42, b"it's a lock/ff");
        assert_eq!(parse(&value), Some((42, b"it's a lock/ff".to_vec())));
        for wrong in ["", "42", "x y"] {
            assert_eq!(parse(wrong.as_bytes()), None);
        }
    }
}
