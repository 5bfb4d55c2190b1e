//! Leases for memos that are kept for a time. One lease serves all memos of this
//! engine that are written within an eighth of that time: a lease for each would
//! cost etcd as much memory as the memo, and one more write.

use std::sync::Mutex;
use std::time::Duration;

use super::wire::{LeaseGrantRequest, LeaseGrantResponse};
use super::{EtcdEngine, lock, random_number, seconds, whole_seconds};
use crate::clock::{Moment, boot_time};
use crate::error::Result;

/// The lease that memos are written under now.
#[derive(Debug, Default)]
pub(super) struct Keeping(Mutex<Option<Kept>>);

#[derive(Debug, Clone, Copy)]
struct Kept {
    keep: Duration,
    number: i64,
    /// Until then it has at least `keep` to run.
    serves_until: Moment,
}

impl Keeping {
    /// The number of a lease that has at least so long to run.
    pub(super) async fn lease(
        &self,
        engine: &EtcdEngine,
        keep: Duration,
        doing: impl Fn() -> String,
    ) -> Result<i64> {
        let now = boot_time();
        let known = *lock(&self.0);
        let is_fit = |known: &Kept| known.keep == keep && now < known.serves_until;
        if let Some(known) = known.filter(is_fit) {
            return Ok(known.number);
        }
        let request = LeaseGrantRequest {
            ttl: whole_seconds(keep + keep / 8),
            id: random_number(),
        };
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let granted: Result<LeaseGrantResponse> = engine.members.ask(path, &request, doing).await;
        let granted = match granted {
            // The answer to the first of two requests was lost.
            Err(error) if error.why().contains("lease already exists") => request.ttl,
            granted => granted?.ttl,
        };
        // It began after it was asked for.
        let kept = Kept {
            keep,
            number: request.id,
            serves_until: now + seconds(granted).saturating_sub(keep),
        };
        *lock(&self.0) = Some(kept);
        Ok(kept.number)
    }

    /// The store does not know this lease any more.
    pub(super) fn forget(&self, number: i64) {
        let mut known = lock(&self.0);
        if known.is_some_and(|known| known.number == number) {
            *known = None;
        }
    }
}
