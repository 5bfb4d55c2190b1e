//! When to renew a lease and when to give it up. Pure: time is an argument.
//!
//! The store keeps a lease for its ttl from when it *handled* our request. We
//! count from when we *sent* it, less a margin, so that we stop first.

use std::time::Duration;

use crate::clock::Moment;

/// The shortest ttl: below it a busy machine loses locks for no reason.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(100);
/// The longest ttl: a dead holder would block for longer than a day.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// What the watchdog has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing before this moment.
    Sleep(Moment),
    /// Ask the store for a renewal now.
    Renew,
    /// The deadline has passed: the lease is lost.
    Over,
}

/// The local view of one lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseClock {
    /// When the last request that the store granted was sent.
    sent: Moment,
    /// When the last request, granted or not, was sent.
    tried: Moment,
    ttl: Duration,
    margin: Duration,
}

impl LeaseClock {
    pub(crate) fn granted(sent: Moment, ttl: Duration, margin: Duration) -> Self {
        Self {
            sent,
            tried: sent,
            ttl,
            margin,
        }
    }

    /// A renewal asked for at `sent` was granted. An answer that was overtaken
    /// by a later one changes nothing.
    pub(crate) fn renewed(&mut self, sent: Moment) {
        self.sent = self.sent.max(sent);
        self.tried = self.tried.max(sent);
    }

    /// A renewal was asked for; the next one waits for a pause.
    pub(crate) fn tried(&mut self, sent: Moment) {
        self.tried = self.tried.max(sent);
    }

    /// From here on we may no longer act as holder.
    pub(crate) fn deadline(&self) -> Moment {
        self.sent + self.ttl.saturating_sub(self.margin)
    }

    pub(crate) fn next(&self, now: Moment) -> Next {
        let due = (self.sent + self.ttl / 3).max(self.retry_at());
        if now >= self.deadline() {
            Next::Over
        } else if now >= due {
            Next::Renew
        } else {
            Next::Sleep(due.min(self.deadline()))
        }
    }

    /// How long one renewal may take before another is tried beside it.
    pub(crate) fn attempt_limit(&self) -> Duration {
        self.ttl / 6
    }

    fn retry_at(&self) -> Moment {
        if self.tried == self.sent {
            self.sent
        } else {
            self.tried + self.ttl / 30
        }
    }
}

/// The margin for a ttl unless the user names one: 1 %, at least 50 ms, which
/// covers clock drift and a late timer, but never more than a quarter.
pub(crate) fn default_margin(ttl: Duration) -> Duration {
    (ttl / 100).max(Duration::from_millis(50)).min(ttl / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }
    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_lease_is_renewed_at_a_third_of_its_ttl() {
        let clock = LeaseClock::granted(at(1000), ms(9000), ms(100));
        assert_eq!(clock.next(at(1000)), Next::Sleep(at(4000)));
        assert_eq!(clock.next(at(4000)), Next::Renew);
    }

    #[test]
    fn a_lease_is_over_at_the_send_time_plus_ttl_less_the_margin() {
        let clock = LeaseClock::granted(at(1000), ms(9000), ms(100));
        assert_eq!(clock.next(at(9899)), Next::Renew);
        assert_eq!(clock.next(at(9900)), Next::Over);
    }

    #[test]
    fn a_failed_renewal_is_tried_again_after_a_pause_and_does_not_move_the_deadline() {
        let mut clock = LeaseClock::granted(at(0), ms(9000), ms(100));
        let before = clock.deadline();
        clock.tried(at(3000));
        assert_eq!(clock.next(at(3001)), Next::Sleep(at(3300)));
        assert_eq!(clock.deadline(), before);
    }

    #[test]
    fn an_overtaken_answer_does_not_move_the_deadline_back() {
        let mut clock = LeaseClock::granted(at(0), ms(9000), ms(100));
        clock.renewed(at(4000));
        clock.renewed(at(3000));
        assert_eq!(clock.deadline(), at(12_900));
    }

    proptest! {
        /// The store counts from a later moment and over the whole ttl.
        #[test]
        fn we_always_stop_before_the_store_can_give_the_claim_away(
            ttl in 100_u64..86_400_000, sent in 0_u64..1 << 40, handled in 0_u64..10_000,
            renewals in prop::collection::vec((0_u64..30_000, 0_u64..10_000), 0..20),
        ) {
            let mut clock = LeaseClock::granted(at(sent), ms(ttl), default_margin(ms(ttl)));
            let mut store_expires = at(sent + handled) + ms(ttl);
            let mut now = sent;
            for (later, handled) in renewals {
                now += later;
                if clock.next(at(now)) == Next::Over { break; }
                clock.renewed(at(now));
                store_expires = store_expires.max(at(now + handled) + ms(ttl));
            }
            prop_assert!(clock.deadline() < store_expires);
            prop_assert_eq!(clock.next(clock.deadline()), Next::Over);
            prop_assert_eq!(clock.next(store_expires), Next::Over);
        }

        #[test]
        fn a_watchdog_that_follows_the_clock_renews_well_before_the_deadline(
            ttl in 100_u64..86_400_000, sent in 0_u64..1 << 40,
        ) {
            let clock = LeaseClock::granted(at(sent), ms(ttl), default_margin(ms(ttl)));
            let Next::Sleep(due) = clock.next(at(sent)) else { panic!("nothing to do yet") };
            prop_assert!(clock.deadline().since(due) >= ms(ttl) / 3);
        }
    }
}
