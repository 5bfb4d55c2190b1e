//! Marks of locks that have had no writer since: a key of its own, on the lease of
//! the reader who made it. A writer's claim deletes it, in one transaction.

use super::keys;
use super::record::Record;
use super::request::{Guard, all, created_at, look, one, put};
use super::wire::{KeyValue, TxnRequest, TxnResponse};
use super::{EtcdEngine, TXN, is_lease_gone};
use crate::engine::{Lease, Mark};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::rule::{UNBOUNDED, is_writer};

/// How often a request is made anew because something changed meanwhile.
const ROUNDS: u32 = 20;

/// The lock's mark, made if it is not there; none if there is a writer.
pub(super) async fn stamp(engine: &EtcdEngine, lease: &Lease, name: &Name) -> Result<Option<Mark>> {
    let doing = || format!("read {name} without a lock");
    let (key, queue) = (keys::stamp(name), keys::shared_with(name, UNBOUNDED));
    for _ in 0..ROUNDS {
        let seen = engine
            .transact(&look([one(&key), all(&queue, 0)]), doing)
            .await?;
        let revision = seen.revision();
        let mut reads = seen.into_reads();
        let [found, claims] = [(); 2].map(|()| reads.next().unwrap_or_default());
        if let Some(kv) = found.kvs.first() {
            return Ok(Some(mark(kv.create_revision)));
        }
        let writes = |kv: &KeyValue| is_writer(UNBOUNDED, Record::of(kv).weight);
        if claims.kvs.iter().any(writes) {
            return Ok(None);
        }
        let request = TxnRequest {
            compare: vec![
                created_at(&key, 0),
                Guard::NothingNewSince(revision).on(&queue),
            ],
            success: vec![put(&key, b"1", keys::number(lease.id))],
            failure: Vec::new(),
        };
        let made: TxnResponse = match engine.members.ask_noting(TXN, &request, doing).await {
            // Nobody can rely on what we would put.
            Err(error) if is_lease_gone(&error) => return Ok(None),
            made => made?.answer,
        };
        if made.succeeded {
            return Ok(Some(mark(made.revision())));
        }
    }
    let why = "the lock's queue changes faster than it can be read";
    Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*engine.members.label))
}

fn mark(revision: i64) -> Mark {
    Mark(revision.to_string())
}
