//! One hold: from the grant of a claim, or its hand-over inside the process,
//! until it is given back or lost.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Moment;
use crate::core::{Anchor, Core, Term};
use crate::engine::ClaimRef;
use crate::fence::{Fence, Token};
use crate::guard::Lost;
use crate::local::Turn;
use crate::reaper::{Doubt, Errand};
use crate::stuck::{OnStuck, Stuck};
use crate::telemetry;

/// How long a hold may last, whatever the lease does, and how long it should.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) max_hold: Option<Duration>,
    pub(crate) max_renewals: Option<u32>,
    pub(crate) expected_hold: Option<Duration>,
    pub(crate) on_stuck: Option<OnStuck>,
}

/// A claim that the store has granted to us.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) claim: ClaimRef,
    pub(crate) term: Arc<Term>,
    /// The first token of the grant and the random part of its fence.
    pub(crate) fence: Fence,
    /// When we got it from the store.
    pub(crate) since: Moment,
    /// How often it was handed over inside this process.
    pub(crate) handed: u32,
    /// Something in the store depends on this very claim, and so it is never
    /// handed over.
    pub(crate) is_bound: bool,
    /// Nobody else can hold the lock beside it.
    pub(crate) is_exclusive: bool,
    /// Another request for it may still arrive at the store.
    pub(crate) doubt: Option<Doubt>,
}

/// What a hold has to give back, once.
#[derive(Debug)]
pub(crate) struct Stake {
    pub(crate) claim: Claim,
    pub(crate) turn: Option<Turn>,
}

#[derive(Debug)]
pub(crate) struct Hold {
    anchor: Arc<Anchor>,
    term: Arc<Term>,
    claim: ClaimRef,
    fence: Fence,
    granted: Moment,
    waited: Duration,
    renewals_before: u32,
    is_exclusive: bool,
    /// How many memos this hold has written.
    editions: AtomicU64,
    max_renewals: Option<u32>,
    /// Boot-clock nanoseconds at which the hold's limit is reached.
    limit: AtomicU64,
    expected: Option<Duration>,
    on_stuck: Option<OnStuck>,
    is_told_stuck: AtomicBool,
    lost: OnceLock<Loss>,
    told: Notify,
    stake: Mutex<Option<Stake>>,
    guards: AtomicUsize,
}

#[derive(Debug)]
struct Loss {
    lost: Lost,
    note: Option<String>,
}

impl Hold {
    pub(crate) fn new(
        anchor: Arc<Anchor>,
        stake: Stake,
        limits: Limits,
        asked: Moment,
    ) -> Arc<Self> {
        let now = anchor.core.clock.now();
        let claim = &stake.claim;
        let token = Token::new(claim.fence.token.get() + u64::from(claim.handed));
        let limit = limits
            .max_hold
            .map_or(u64::MAX, |longest| (now + longest).nanos());
        let hold = Arc::new(Self {
            term: claim.term.clone(),
            claim: claim.claim.clone(),
            fence: Fence {
                token,
                ..claim.fence
            },
            granted: now,
            waited: now.since(asked),
            renewals_before: claim.term.renewals(),
            is_exclusive: claim.is_exclusive,
            editions: AtomicU64::new(0),
            max_renewals: limits.max_renewals,
            limit: AtomicU64::new(limit),
            expected: limits.expected_hold,
            on_stuck: limits.on_stuck,
            is_told_stuck: AtomicBool::new(false),
            lost: OnceLock::new(),
            told: Notify::new(),
            guards: AtomicUsize::new(1),
            stake: Mutex::new(Some(stake)),
            anchor,
        });
        let core = hold.core();
        core.register(hold.claim.id, &hold);
        if hold.is_timed() {
            hold.look_at_time(now);
            core.look.notify_one();
        }
        // The session may have closed, or the lease ended, while the claim was
        // on its way to us and the hold was not yet registered.
        if core.is_closed() {
            hold.lose(Lost::Closed, None);
        } else if hold.term.is_over(now) {
            hold.lose(Lost::Deadline, None);
        }
        telemetry::acquired(core.scheme, hold.waited);
        hold
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.anchor.core
    }

    pub(crate) fn claim(&self) -> &ClaimRef {
        &self.claim
    }

    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// The number of the next memo that this hold writes.
    pub(crate) fn next_edition(&self) -> u64 {
        self.editions.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    pub(crate) fn held(&self) -> Duration {
        self.core().clock.now().since(self.granted)
    }

    pub(crate) fn renewals(&self) -> u32 {
        self.term.renewals().saturating_sub(self.renewals_before)
    }

    pub(crate) fn note(&self) -> Option<&str> {
        self.lost.get()?.note.as_deref()
    }

    /// From here on the hold is lost, unless a renewal comes first.
    pub(crate) fn deadline(&self) -> Moment {
        let limit = Moment::from_nanos(self.limit.load(Ordering::Acquire));
        self.term.deadline().min(limit)
    }

    /// Why the hold is lost, if it is, by the clock and without I/O.
    pub(crate) fn lost(&self) -> Option<Lost> {
        if let Some(loss) = self.lost.get() {
            return Some(loss.lost);
        }
        let now = self.core().clock.now();
        if now < self.deadline() {
            return None;
        }
        let is_limit = now.nanos() >= self.limit.load(Ordering::Acquire);
        let lost = if is_limit {
            Lost::HoldLimit
        } else {
            Lost::Deadline
        };
        self.lose(lost, None);
        self.lost.get().map(|loss| loss.lost)
    }

    /// Waits for the loss.
    pub(crate) async fn until_lost(&self) -> Lost {
        loop {
            let mut told = std::pin::pin!(self.told.notified());
            told.as_mut().enable();
            if let Some(lost) = self.lost() {
                return lost;
            }
            // Our own timer, so that neither a hanging renewal nor a busy
            // watchdog can delay the news.
            tokio::select! {
                biased;
                () = told => {}
                () = self.core().clock.sleep_until(self.deadline()) => {}
            }
        }
    }

    /// Declares the hold lost. What it had is given up at once, also if the
    /// guard is never dropped: others of this process are waiting behind it.
    /// Says whether it had anything, so that nobody else has it now.
    pub(crate) fn lose(&self, lost: Lost, note: Option<String>) -> bool {
        // Under one lock with the stake: a hold is either given back or lost,
        // so that a claim is neither handed on after its loss nor forgotten.
        let mut held = self.held_stake();
        if self.lost.set(Loss { lost, note }).is_err() {
            return false;
        }
        let stake = held.take();
        drop(held);
        telemetry::lost(self.core().scheme, lost);
        tracing::warn!(lock = %self.claim.name, token = %self.fence.token, %lost, "lock lost");
        self.told.notify_waiters();
        let Some(Stake { claim, turn }) = stake else {
            return false;
        };
        self.core().deregister(self.claim.id, self);
        if let Some(turn) = turn {
            turn.pass_empty();
        }
        self.core().send(Errand::withdraw(claim, None));
        true
    }

    /// Whether something happens when it has lasted for some time.
    pub(crate) fn is_timed(&self) -> bool {
        self.max_renewals.is_some()
            || self.limit.load(Ordering::Acquire) != u64::MAX
            || self.expected.is_some()
    }

    /// Does what it is time for, and says when to look again.
    pub(crate) fn look_at_time(&self, now: Moment) -> Option<Moment> {
        let limit = self.end_at_limit(now)?;
        Some(
            self.tell_if_stuck(now)
                .map_or(limit, |then| then.min(limit)),
        )
    }

    /// Tells, once, that the hold has outlived its time, else says when it will
    /// have.
    fn tell_if_stuck(&self, now: Moment) -> Option<Moment> {
        let expected = self.expected?;
        if self.is_told_stuck.load(Ordering::Acquire) {
            return None;
        }
        let end = self.granted + expected;
        if now < end {
            return Some(end);
        }
        if self.is_told_stuck.swap(true, Ordering::AcqRel) {
            return None;
        }
        let held = now.since(self.granted);
        telemetry::stuck(self.core().scheme);
        tracing::warn!(
            lock = %self.claim.name, token = %self.fence.token, ?held, ?expected,
            "held for longer than expected"
        );
        if let Some(on_stuck) = &self.on_stuck {
            on_stuck.tell(Stuck {
                name: self.claim.name.clone(),
                token: self.fence.token,
                expected,
                held,
            });
        }
        None
    }

    /// Ends the hold if its limit has come, else says when it will.
    fn end_at_limit(&self, now: Moment) -> Option<Moment> {
        if let Some(most) = self.max_renewals
            && self.renewals() >= most
        {
            // The last renewal it may have: it ends with that one's deadline.
            let end = self.term.deadline().nanos();
            self.limit.fetch_min(end, Ordering::AcqRel);
        }
        let limit = Moment::from_nanos(self.limit.load(Ordering::Acquire));
        if now >= limit {
            self.lose(Lost::HoldLimit, None);
            return None;
        }
        Some(limit)
    }

    /// Another guard on the same hold, unless it is already given back or lost.
    pub(crate) fn enter(&self) -> bool {
        self.lost().is_none()
            && self
                .guards
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |guards| {
                    (guards > 0).then_some(guards + 1)
                })
                .is_ok()
    }

    /// The claim goes back to the store after this hold, whoever waits in this
    /// process.
    pub(crate) fn bind(&self) {
        if let Some(stake) = &mut *self.held_stake() {
            stake.claim.is_bound = true;
        }
    }

    /// One guard less; the stake, if that was the last one and nothing was
    /// lost.
    pub(crate) fn leave(&self) -> Option<Stake> {
        if self.guards.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        let stake = self.held_stake().take();
        if stake.is_some() {
            self.core().deregister(self.claim.id, self);
            telemetry::released(self.core().scheme, self.held());
        }
        stake
    }

    fn held_stake(&self) -> MutexGuard<'_, Option<Stake>> {
        self.stake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::GoneClaim;

    /// The news finds the old hold at the moment in which its claim goes over to
    /// the next task.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_broken_while_it_is_handed_over_is_lost_to_the_next() {
        let session = crate::connect("memory:").await.unwrap();
        let core = session.core();
        let guard = session.mutex("x").lock().await.unwrap();
        let old = guard.hold();
        let stake = old.leave().unwrap();
        core.register(old.claim.id, old);
        core.lose_gone(GoneClaim {
            id: old.claim.id,
            lost: Lost::Evicted,
            note: None,
        });
        let (anchor, now) = (old.anchor.clone(), core.clock.now());
        let new = Hold::new(anchor, stake, Limits::default(), now);
        assert_eq!(new.lost(), Some(Lost::Evicted));
    }
}
