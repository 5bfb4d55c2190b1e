//! Whether a writer came: by the last order that the lock remembers, which every
//! claim changes. What a failover or a restart forgets is not taken for nothing:
//! then it is another connection, or another replication id.

use super::RedisEngine;
use super::answer::strange;
use super::keys::Keys;
use crate::engine::Mark;
use crate::error::Result;
use crate::name::Name;

/// The lock's mark; none if there is a writer.
pub(super) async fn stamp(engine: &RedisEngine, name: &Name) -> Result<Option<Mark>> {
    let keys = Keys::of(name);
    let doing = || format!("read {name} without a lock");
    let (answer, doer): (Vec<String>, _) = engine
        .server
        .run_noting(&engine.scripts.stamp, &keys.three(), &[], doing)
        .await?;
    let [order, id] = match answer.as_slice() {
        [] => return Ok(None),
        [order, id] if !id.is_empty() => [order, id],
        _ => return Err(strange(doing(), &engine.server.label)),
    };
    // A master that was replaced without its knowledge has no witnesses.
    engine.server.confirm(&doer, keys.lock(), doing).await?;
    let (link, connection) = (&doer.link.label, doer.number);
    Ok(Some(Mark(format!("{link} {connection} {id} {order}"))))
}
