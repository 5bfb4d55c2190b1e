//! What this session holds and waits for, and what the servers have told it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::super::link::Ears;
use super::super::lock;
use super::keys::holder;
use crate::clock::Moment;
use crate::engine::{ClaimRef, Lease, LeaseId, Owner, Ticket, TicketId};
use crate::name::Name;

/// How long a holder that only changed its own lock is left alone.
const REST: Duration = Duration::from_millis(50);

/// A lease of ours.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    pub(super) owner: Owner,
    /// Rung when a lock that this lease holds was changed by somebody else.
    pub(super) news: Notify,
}

/// A claim of ours, from before it is asked for until it is withdrawn.
#[derive(Debug)]
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) lease: LeaseId,
    /// How Redisson sees it.
    pub(super) holder: String,
    state: Mutex<State>,
    /// Rung when the lock may be free. It keeps a ring until somebody waits for
    /// it, so none is lost between two waits.
    pub(super) bell: Notify,
}

#[derive(Debug, Clone, Default)]
struct State {
    phase: Phase,
    /// Who was in the way when we asked last, and when that was.
    blocker: Option<(String, Moment)>,
    /// It was the same one the time before.
    is_same: bool,
    /// How often the server said that the lock changed, and how many of these
    /// are accounted for.
    changes: u64,
    checked: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// Asked for, and not yet answered.
    #[default]
    Asked,
    /// The store has nothing of it; the holder's time is over then.
    Waiting {
        until: Moment,
    },
    Held,
    /// Being withdrawn: neither renewed nor missed, but still there.
    Leaving,
}

impl Mine {
    pub(super) fn is_asked(&self) {
        let mut state = lock(&self.state);
        state.phase = Phase::Asked;
        state.checked = state.changes;
    }

    /// Says whether the lock changed before we knew that we hold it.
    pub(super) fn is_held(&self) -> bool {
        let mut state = lock(&self.state);
        state.phase = Phase::Held;
        state.checked != state.changes
    }

    /// How many changes there were, if we hold the lock and have not looked
    /// since the last one.
    fn unchecked(&self) -> Option<u64> {
        let state = lock(&self.state);
        let is_due = state.phase == Phase::Held && state.checked != state.changes;
        is_due.then_some(state.changes)
    }

    /// We have looked, after so many changes.
    pub(super) fn is_checked(&self, changes: u64) {
        lock(&self.state).checked = changes;
    }

    pub(super) fn leaves(&self) {
        lock(&self.state).phase = Phase::Leaving;
    }

    /// Somebody else has the lock for so long, unless that changes.
    pub(super) fn waits(&self, blocker: String, left: Duration, now: Moment) {
        let mut state = lock(&self.state);
        state.phase = Phase::Waiting { until: now + left };
        let before = state.blocker.as_ref().map(|(blocker, _)| blocker);
        state.is_same = before == Some(&blocker);
        state.blocker = Some((blocker, now));
    }

    /// How long the holder's time still runs.
    pub(super) fn left(&self, now: Moment) -> Duration {
        match lock(&self.state).phase {
            Phase::Waiting { until } => until.since(now),
            _ => Duration::ZERO,
        }
    }

    /// How long to wait before asking after a change. A holder that enters its
    /// lock again and again changes it each time; who waits for it should not
    /// follow every step.
    pub(super) fn rest(&self, now: Moment) -> Duration {
        let state = lock(&self.state);
        match &state.blocker {
            Some((_, asked)) if state.is_same => REST.saturating_sub(now.since(*asked)),
            _ => Duration::ZERO,
        }
    }

    fn stir(&self) {
        lock(&self.state).changes += 1;
        self.bell.notify_one();
    }

    pub(super) fn was_held(&self) -> bool {
        lock(&self.state).phase == Phase::Held
    }

    fn is_waiting(&self) -> bool {
        matches!(lock(&self.state).phase, Phase::Waiting { .. })
    }

    /// Whether the store may have it.
    fn may_be_there(&self) -> bool {
        matches!(lock(&self.state).phase, Phase::Held | Phase::Asked)
    }
}

/// Our leases, and our claims by the locks they are for.
#[derive(Debug)]
pub(super) struct Claims {
    /// What Redisson takes for a client; every claim is a thread of it.
    client: u128,
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    by_name: Mutex<HashMap<Name, Vec<Arc<Mine>>>>,
}

impl Claims {
    pub(super) fn new(client: u128) -> Self {
        Self {
            client,
            leases: Mutex::default(),
            by_name: Mutex::default(),
        }
    }

    /// How Redisson sees a claim of ours, whether or not it is known here.
    pub(super) fn holder(&self, ticket: TicketId) -> String {
        holder(self.client, ticket)
    }

    pub(super) fn add_lease(&self, lease: Lease, owner: Owner) {
        let news = Notify::new();
        let open = OpenLease { lease, owner, news };
        lock(&self.leases).insert(lease.id, Arc::new(open));
    }

    pub(super) fn lease(&self, id: LeaseId) -> Option<Arc<OpenLease>> {
        lock(&self.leases).get(&id).cloned()
    }

    /// Ends the lease here. Its claims are known until they are withdrawn.
    pub(super) fn close_lease(&self, id: LeaseId) {
        lock(&self.leases).remove(&id);
    }

    /// The claim of this ticket, made known before it is asked for, so that no
    /// renewal overlooks it.
    pub(super) fn admit(&self, ticket: &Ticket) -> Arc<Mine> {
        let mut by_name = lock(&self.by_name);
        let claims = by_name.entry(ticket.claim.name.clone()).or_default();
        if let Some(mine) = claims.iter().find(|mine| mine.claim.id == ticket.claim.id) {
            return mine.clone();
        }
        let mine = Arc::new(Mine {
            claim: ticket.claim.clone(),
            lease: ticket.lease,
            holder: self.holder(ticket.claim.id),
            state: Mutex::default(),
            bell: Notify::new(),
        });
        claims.push(mine.clone());
        mine
    }

    pub(super) fn claim(&self, claim: &ClaimRef) -> Option<Arc<Mine>> {
        let by_name = lock(&self.by_name);
        let mut claims = by_name.get(&claim.name)?.iter();
        claims.find(|mine| mine.claim.id == claim.id).cloned()
    }

    pub(super) fn forget(&self, claim: &ClaimRef) {
        let mut by_name = lock(&self.by_name);
        if let Some(claims) = by_name.get_mut(&claim.name) {
            claims.retain(|mine| mine.claim.id != claim.id);
            if claims.is_empty() {
                by_name.remove(&claim.name);
            }
        }
    }

    pub(super) fn of_lease(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        self.those(|mine| mine.lease == lease)
    }

    /// The claims of the lease that the store may have and is to keep.
    pub(super) fn kept_by(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        self.those(|mine| mine.lease == lease && mine.may_be_there())
    }

    /// The locks that the lease holds and that changed since we looked, each
    /// with how many changes there were.
    pub(super) fn stirred(&self, lease: LeaseId) -> Vec<(Arc<Mine>, u64)> {
        let held = self.those(|mine| mine.lease == lease).into_iter();
        let stirred = held.map(|mine| mine.unchecked().map(|changes| (mine, changes)));
        stirred.flatten().collect()
    }

    pub(super) fn is_anyone_waiting(&self, lease: LeaseId) -> bool {
        let by_name = lock(&self.by_name);
        let mut claims = by_name.values().flatten();
        claims.any(|mine| mine.lease == lease && mine.is_waiting())
    }

    fn those(&self, are_meant: impl Fn(&Mine) -> bool) -> Vec<Arc<Mine>> {
        let by_name = lock(&self.by_name);
        let claims = by_name.values().flatten();
        claims.filter(|mine| are_meant(mine)).cloned().collect()
    }

    /// The lock was changed: whoever waits for it asks, and whoever holds it
    /// sees that it still does.
    pub(super) fn stir(&self, name: &str) {
        let claims = {
            let by_name = lock(&self.by_name);
            let Ok(name) = Name::new(name) else { return };
            by_name.get(&name).cloned().unwrap_or_default()
        };
        for mine in claims {
            mine.stir();
            if mine.was_held()
                && let Some(open) = self.lease(mine.lease)
            {
                open.news.notify_one();
            }
        }
    }

    fn stir_all(&self) {
        for mine in self.those(|_| true) {
            mine.stir();
        }
        for open in lock(&self.leases).values() {
            open.news.notify_one();
        }
    }
}

impl Ears for Claims {
    /// We listen to no channel.
    fn hear(&self, _channel: &str, _message: &[u8]) {}

    fn changed(&self, keys: Option<Vec<String>>) {
        match keys {
            Some(keys) if !keys.is_empty() => keys.iter().for_each(|key| self.stir(key)),
            // Everything was flushed.
            _ => self.stir_all(),
        }
    }

    fn missed(&self) {
        self.stir_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine(claims: &Claims) -> Arc<Mine> {
        claims.admit(&Ticket {
            claim: ClaimRef {
                name: Name::new("x").unwrap(),
                id: TicketId(7),
            },
            lease: LeaseId(1),
            holder: 0,
            capacity: 1,
            weight: 1,
            waits: true,
            label: None,
        })
    }

    #[test]
    fn a_holder_that_stays_is_left_alone_for_a_moment() {
        let (mine, second) = (mine(&Claims::new(1)), Duration::from_secs(1));
        let start = Moment::from_nanos(0);
        mine.waits("them:1".into(), second, start);
        assert_eq!(mine.rest(start), Duration::ZERO);
        mine.waits("them:1".into(), second, start);
        assert_eq!(mine.rest(start), REST);
        assert_eq!(mine.rest(start + second), Duration::ZERO);
        mine.waits("them:2".into(), second, start);
        assert_eq!(mine.rest(start), Duration::ZERO);
    }

    #[test]
    fn only_what_the_store_may_have_is_renewed() {
        let claims = Claims::new(1);
        let mine = mine(&claims);
        let count = || claims.kept_by(LeaseId(1)).len();
        assert_eq!(count(), 1);
        mine.waits("them:1".into(), Duration::ZERO, Moment::from_nanos(0));
        assert_eq!((count(), claims.is_anyone_waiting(LeaseId(1))), (0, true));
        mine.is_asked();
        claims.stir("x");
        assert!(mine.is_held(), "changed before we knew that we hold it");
        let stirred = claims.stirred(LeaseId(1));
        claims.stir("x");
        stirred[0].0.is_checked(stirred[0].1);
        assert_eq!(claims.stirred(LeaseId(1)).len(), 1, "changed meanwhile");
        assert_eq!(count(), 1);
        mine.leaves();
        assert_eq!((count(), claims.of_lease(LeaseId(1)).len()), (0, 1));
        claims.forget(&mine.claim);
        assert!(claims.claim(&mine.claim).is_none());
    }
}
