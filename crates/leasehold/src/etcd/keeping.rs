//! Leases for memos that are kept for a time. One lease serves memos of this engine
//! that are written within an eighth of that time: a lease for each would cost etcd
//! as much memory as the memo, and one more write. But not too many of them: etcd
//! deletes all keys of a lease in one go, and does nothing else meanwhile.

use std::sync::Mutex;
use std::time::Duration;

use super::wire::{LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse};
use super::{EtcdEngine, lock, random_number, seconds, whole_seconds};
use crate::clock::{Moment, boot_time};
use crate::error::Result;

/// How many memos one lease serves.
const MOST: u32 = 1000;
/// How long somebody else's asking for a lease is waited for.
const TURN: Duration = Duration::from_millis(200);
/// For how many different times a lease is kept in mind.
const TIMES: usize = 16;

/// The leases that memos are written under now.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    leases: Mutex<Leases>,
    /// Whoever asks for another one: those who come meanwhile share it.
    asking: tokio::sync::Mutex<()>,
}

/// At most one for each time, the oldest first.
#[derive(Debug, Default)]
struct Leases(Vec<Kept>);

#[derive(Debug, Clone, Copy)]
struct Kept {
    keep: Duration,
    number: i64,
    /// Until then it has at least `keep` to run.
    serves_until: Moment,
    /// How many memos it was given out for.
    memos: u32,
}

impl Leases {
    /// One that can serve another memo.
    fn take(&mut self, keep: Duration, now: Moment) -> Option<i64> {
        let is_fit =
            |kept: &&mut Kept| kept.keep == keep && now < kept.serves_until && kept.memos < MOST;
        let kept = self.0.iter_mut().find(is_fit)?;
        kept.memos += 1;
        Some(kept.number)
    }

    /// One was not needed after all. Says whether the lease has served nothing: then
    /// it is not given out any more.
    fn give_back(&mut self, number: i64) -> bool {
        let Some(at) = self.0.iter().position(|kept| kept.number == number) else {
            return false;
        };
        self.0[at].memos -= 1;
        let is_idle = self.0[at].memos == 0;
        if is_idle {
            self.0.remove(at);
        }
        is_idle
    }

    /// A new one, in place of the last one for that time.
    fn add(&mut self, fresh: Kept) {
        self.0.retain(|kept| kept.keep != fresh.keep);
        if self.0.len() == TIMES {
            self.0.remove(0);
        }
        self.0.push(fresh);
    }
}

impl Keeping {
    /// The number of a lease that has at least so long to run.
    pub(super) async fn lease(
        &self,
        engine: &EtcdEngine,
        keep: Duration,
        doing: impl Fn() -> String,
    ) -> Result<i64> {
        if let Some(number) = lock(&self.leases).take(keep, boot_time()) {
            return Ok(number);
        }
        // Whoever is at it may not be polled for long: nobody waits for that.
        let _asking = tokio::time::timeout(TURN, self.asking.lock()).await;
        let now = boot_time();
        if let Some(number) = lock(&self.leases).take(keep, now) {
            return Ok(number);
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
        lock(&self.leases).add(Kept {
            keep,
            number: request.id,
            // It began after it was asked for.
            serves_until: now + seconds(granted).saturating_sub(keep),
            memos: 1,
        });
        Ok(request.id)
    }

    /// The write that this lease was for was refused.
    pub(super) async fn give_back(&self, engine: &EtcdEngine, number: i64) {
        if !lock(&self.leases).give_back(number) {
            return;
        }
        let request = LeaseRevokeRequest { id: number };
        let path = "/etcdserverpb.Lease/LeaseRevoke";
        let doing = || "give back a lease for memos".to_owned();
        let revoked: Result<LeaseRevokeResponse> = engine.members.ask(path, &request, doing).await;
        if let Err(error) = revoked {
            tracing::debug!(%error, "it ends by itself");
        }
    }

    /// The store does not know this lease any more.
    pub(super) fn forget(&self, number: i64) {
        lock(&self.leases).0.retain(|kept| kept.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Moment {
        Moment::from_nanos(0)
    }

    fn kept(keep: u64, number: i64) -> Kept {
        Kept {
            keep: Duration::from_secs(keep),
            number,
            serves_until: start() + Duration::from_secs(keep / 8),
            memos: 1,
        }
    }

    #[test]
    fn a_lease_serves_so_many_memos_and_for_an_eighth_of_its_time() {
        let (mut leases, hour) = (Leases::default(), Duration::from_secs(3600));
        assert_eq!(leases.take(hour, start()), None);
        leases.add(kept(3600, 7));
        assert_eq!(leases.take(hour, start() + hour / 8), None);
        for _ in 1..MOST {
            assert_eq!(leases.take(hour, start()), Some(7));
        }
        assert_eq!(leases.take(hour, start()), None);
        leases.add(kept(3600, 8));
        assert_eq!(leases.take(hour, start()), Some(8));
        assert_eq!(leases.0.len(), 1);
    }

    #[test]
    fn a_lease_that_served_nothing_is_given_back() {
        let (mut leases, hour) = (Leases::default(), Duration::from_secs(3600));
        leases.add(kept(3600, 7));
        assert_eq!(leases.take(hour, start()), Some(7));
        assert!(!leases.give_back(7), "the other one needs it");
        assert!(leases.give_back(7));
        assert_eq!(leases.take(hour, start()), None);
        assert!(!leases.give_back(7));
    }

    #[test]
    fn different_times_in_turn_have_their_leases() {
        let mut leases = Leases::default();
        let times = 1000..1000 + TIMES as u64;
        times
            .clone()
            .for_each(|keep| leases.add(kept(keep, keep as i64)));
        for _ in 0..2 {
            for keep in times.clone() {
                let taken = leases.take(Duration::from_secs(keep), start());
                assert_eq!(taken, Some(keep as i64));
            }
        }
        leases.add(kept(9999, 1));
        assert_eq!(leases.take(Duration::from_secs(1000), start()), None);
        assert_eq!(leases.take(Duration::from_secs(1001), start()), Some(1001));
    }
}
