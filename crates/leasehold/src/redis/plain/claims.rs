//! What this session holds and waits for, and what the server has told it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::clock::Moment;
use crate::engine::{ClaimRef, Lease, LeaseId, Owner, Ticket};
use crate::redis::link::Ears;
use crate::redis::lock;

/// A lease of ours.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    pub(super) owner: Owner,
    /// Rung when somebody else changed a lock that we hold.
    pub(super) news: Notify,
}

/// A claim of ours, from before it is asked for until it is withdrawn.
#[derive(Debug)]
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) lease: LeaseId,
    state: Mutex<State>,
    /// Rung when the lock changed. It keeps a ring until somebody waits for it,
    /// so none is lost between two waits.
    pub(super) bell: Notify,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// How often the lock changed, and how often it had when we last asked for
    /// it or looked at it.
    changes: u64,
    seen: u64,
    /// When the lock is free unless its holder renews it; `None` if never.
    free_at: Option<Moment>,
    /// Who held it when we asked last.
    holder: String,
    /// How often in a row somebody else was faster.
    lost_races: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// Asked for, and not yet answered.
    #[default]
    Asked,
    /// Held by another. The server has nothing of it.
    Waiting,
    Held,
    /// Being withdrawn: neither renewed nor missed, but still there.
    Leaving,
}

impl Mine {
    pub(super) fn asked(&self) {
        let mut state = lock(&self.state);
        state.phase = Phase::Asked;
        state.seen = state.changes;
    }

    pub(super) fn waits(&self, free_at: Option<Moment>, holder: String) {
        let mut state = lock(&self.state);
        state.phase = Phase::Waiting;
        state.free_at = free_at;
        if !state.holder.is_empty() && state.holder != holder {
            state.lost_races += 1;
        }
        state.holder = holder;
    }

    /// Says whether the lock was changed since we asked for it.
    pub(super) fn is_held(&self) -> bool {
        let mut state = lock(&self.state);
        state.phase = Phase::Held;
        state.changes != state.seen
    }

    /// How often it changed, if we hold it and have not looked since.
    fn stirred(&self) -> Option<u64> {
        let state = lock(&self.state);
        let is_stirred = state.phase == Phase::Held && state.changes != state.seen;
        is_stirred.then_some(state.changes)
    }

    /// It was looked at after it had changed so often.
    pub(super) fn is_seen(&self, changes: u64) {
        lock(&self.state).seen = changes;
    }

    pub(super) fn leaves(&self) {
        lock(&self.state).phase = Phase::Leaving;
    }

    pub(super) fn free_at(&self) -> Option<Moment> {
        lock(&self.state).free_at
    }

    pub(super) fn lost_races(&self) -> u32 {
        lock(&self.state).lost_races
    }

    fn phase(&self) -> Phase {
        lock(&self.state).phase
    }

    /// A renewal did not find the lock to be ours. It counts if we held it; one
    /// that is still asked for may not have arrived yet.
    pub(super) fn is_missed(&self) -> bool {
        self.phase() == Phase::Held
    }

    /// Says whether we hold it, as far as we know.
    fn changed(&self) -> bool {
        let mut state = lock(&self.state);
        state.changes += 1;
        let phase = state.phase;
        drop(state);
        self.bell.notify_one();
        phase == Phase::Held
    }
}

/// Our leases and claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    /// By the name of the lock. There may be more than one: the last one on its
    /// way out, and the next.
    names: Mutex<HashMap<String, Vec<Arc<Mine>>>>,
}

impl Claims {
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
        let mut names = lock(&self.names);
        let of_name = names.entry(ticket.claim.name.as_str().to_owned());
        let of_name = of_name.or_default();
        if let Some(mine) = find(of_name, &ticket.claim) {
            return mine;
        }
        let mine = Arc::new(Mine {
            claim: ticket.claim.clone(),
            lease: ticket.lease,
            state: Mutex::default(),
            bell: Notify::new(),
        });
        of_name.push(mine.clone());
        mine
    }

    pub(super) fn claim(&self, claim: &ClaimRef) -> Option<Arc<Mine>> {
        find(lock(&self.names).get(claim.name.as_str())?, claim)
    }

    pub(super) fn forget(&self, claim: &ClaimRef) {
        let mut names = lock(&self.names);
        if let Some(of_name) = names.get_mut(claim.name.as_str()) {
            of_name.retain(|mine| mine.claim.id != claim.id);
            if of_name.is_empty() {
                names.remove(claim.name.as_str());
            }
        }
    }

    pub(super) fn of(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let names = lock(&self.names);
        let of_lease = names.values().flatten().filter(|mine| mine.lease == lease);
        of_lease.cloned().collect()
    }

    /// The claims of the lease that are to be kept.
    pub(super) fn kept_by(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let mut claims = self.of(lease);
        claims.retain(|mine| matches!(mine.phase(), Phase::Asked | Phase::Held));
        claims
    }

    /// The claims of the lease that are held and changed since we looked.
    pub(super) fn stirred(&self, lease: LeaseId) -> Vec<(Arc<Mine>, u64)> {
        let claims = self.of(lease).into_iter();
        let stirred = claims.map(|mine| (mine.stirred(), mine));
        stirred
            .filter_map(|(changes, mine)| Some((mine, changes?)))
            .collect()
    }

    pub(super) fn is_anyone_waiting(&self, lease: LeaseId) -> bool {
        let is_waiting = |mine: &Arc<Mine>| mine.lease == lease && mine.phase() == Phase::Waiting;
        lock(&self.names).values().flatten().any(is_waiting)
    }

    /// Whoever waits asks again, and what we hold is looked at.
    fn all_changed(&self) {
        let claims: Vec<_> = lock(&self.names).values().flatten().cloned().collect();
        for mine in claims {
            mine.changed();
        }
        for open in lock(&self.leases).values() {
            open.news.notify_one();
        }
    }
}

fn find(of_name: &[Arc<Mine>], claim: &ClaimRef) -> Option<Arc<Mine>> {
    of_name
        .iter()
        .find(|mine| mine.claim.id == claim.id)
        .cloned()
}

impl Ears for Claims {
    /// This layout has no channels.
    fn hear(&self, _channel: &str, _message: &[u8]) {}

    fn changed(&self, keys: Option<Vec<String>>) {
        let Some(keys) = keys else {
            return self.all_changed();
        };
        for key in keys {
            let claims = lock(&self.names).get(&key).cloned().unwrap_or_default();
            for mine in claims {
                if mine.changed()
                    && let Some(open) = self.lease(mine.lease)
                {
                    open.news.notify_one();
                }
            }
        }
    }

    fn missed(&self) {
        self.all_changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::TicketId;
    use crate::name::Name;

    fn ticket(id: u128) -> Ticket {
        Ticket {
            claim: ClaimRef {
                name: Name::new("x").unwrap(),
                id: TicketId(id),
            },
            lease: LeaseId(1),
            holder: 0,
            capacity: 1,
            weight: 1,
            waits: true,
            label: None,
        }
    }

    #[test]
    fn a_change_between_the_grant_and_our_learning_of_it_is_not_overlooked() {
        let claims = Claims::default();
        let mine = claims.admit(&ticket(7));
        mine.asked();
        claims.changed(Some(vec!["y".into(), "x".into()]));
        assert!(mine.is_held());
        mine.asked();
        assert!(!mine.is_held(), "that was before we asked");
    }

    #[test]
    fn what_waits_is_not_renewed_and_what_leaves_is_not_missed() {
        let claims = Claims::default();
        let (one, other) = (claims.admit(&ticket(7)), claims.admit(&ticket(8)));
        one.waits(None, "them".into());
        assert_eq!(claims.kept_by(LeaseId(1)).len(), 1);
        assert!(claims.is_anyone_waiting(LeaseId(1)));
        assert!(!other.is_missed(), "it may not have arrived yet");
        other.is_held();
        assert!(other.is_missed());
        other.leaves();
        assert!(!other.is_missed());
        assert_eq!(claims.of(LeaseId(1)).len(), 2);
        claims.forget(&one.claim);
        claims.forget(&other.claim);
        assert!(claims.of(LeaseId(1)).is_empty());
    }

    #[test]
    fn a_holder_that_renews_has_not_been_faster() {
        let claims = Claims::default();
        let mine = claims.admit(&ticket(7));
        for holder in ["a", "a", "b", "b", "c"] {
            mine.waits(None, holder.into());
        }
        assert_eq!(mine.lost_races(), 2);
    }
}
