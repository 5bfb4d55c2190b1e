//! What this session has in the store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::lock;
use super::tie::Bell;
use crate::clock::{Moment, boot_time};
use crate::engine::{ClaimRef, Lease, LeaseId, Standing, Ticket, TicketId, Watch};
use crate::name::Name;

/// How long what another one found out for a claim is good enough.
const NEWS: Duration = Duration::from_millis(100);

/// What requests under a lease rely on, all of it read in one step.
#[derive(Debug, Clone)]
pub(super) struct Footing {
    /// Requests for a place name it; one that names another comes too late.
    pub(super) epoch: u64,
    /// Which server's term it was, and which term. Another one cannot begin without
    /// another epoch. `None` if it was no server's term that we met.
    pub(super) ground: Option<(String, u64)>,
}

/// A lease of ours.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    footing: Mutex<Footing>,
    /// Rung when a claim of this lease was broken, or may be gone.
    pub(super) news: Notify,
    /// Rung by others, if the session is tied to a connection.
    pub(super) bell: Option<Bell>,
}

impl OpenLease {
    pub(super) fn epoch(&self) -> u64 {
        lock(&self.footing).epoch
    }

    pub(super) fn footing(&self) -> Footing {
        lock(&self.footing).clone()
    }

    pub(super) fn learn(&self, footing: Footing) {
        // Not the greater epoch of the two: a failover may have forgotten some.
        *lock(&self.footing) = footing;
    }
}

/// A claim of ours, from before it is asked for until it is withdrawn.
#[derive(Debug)]
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) lease: LeaseId,
    pub(super) capacity: u32,
    state: Mutex<State>,
    /// Rung when the claim should be looked at. It keeps a ring until somebody
    /// waits for it, so none is lost between two waits.
    pub(super) bell: Notify,
    crowd: OnceLock<Arc<Crowd>>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    order: Option<u64>,
    /// Where its row is.
    seat: u64,
    /// A transaction may depend on it.
    is_fenced: bool,
    /// When the first of the claims in the way expires, if that is to come.
    blocked_until: Option<Moment>,
    /// Who is in the way, and since when it is that one.
    blocked_by: Option<(Watch, Moment)>,
    /// How many claims are before it.
    ahead: u32,
    /// The epochs that those requests for it named that have not been answered.
    unanswered: Vec<u64>,
    /// A request for it has gone out at some time.
    has_left: bool,
    /// What another one that waits here found out for it, and when.
    told: Option<(Standing, Moment)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Asked,
    Waiting,
    Held,
    /// Being withdrawn: neither verified nor missed, but still there.
    Leaving,
}

impl Mine {
    /// A request for it goes out, which names this epoch.
    pub(super) fn asked(&self, epoch: u64) {
        let mut state = lock(&self.state);
        state.unanswered.push(epoch);
        state.has_left = true;
    }

    /// A request that named this epoch is answered.
    pub(super) fn answered(&self, epoch: u64) {
        let unanswered = &mut lock(&self.state).unanswered;
        if let Some(position) = unanswered.iter().position(|named| *named == epoch) {
            unanswered.swap_remove(position);
        }
        if unanswered.is_empty() {
            // There may be many claims, and mostly this is all they ever need.
            *unanswered = Vec::new();
        }
    }

    /// Whether a request for it may still be on its way.
    pub(super) fn is_in_doubt(&self) -> bool {
        !lock(&self.state).unanswered.is_empty()
    }

    /// Whether all that may be on its way names an earlier epoch than this.
    pub(super) fn is_too_late_in(&self, epoch: u64) -> bool {
        let state = lock(&self.state);
        state.unanswered.iter().all(|named| *named < epoch)
    }

    /// Whether the store may have heard of it.
    pub(super) fn has_left(&self) -> bool {
        lock(&self.state).has_left
    }

    pub(super) fn nothing_comes_any_more(&self) {
        lock(&self.state).unanswered = Vec::new();
    }

    pub(super) fn order(&self) -> Option<u64> {
        lock(&self.state).order
    }

    /// Where its row is, and whether a transaction may depend on it.
    pub(super) fn seat(&self) -> (u64, bool) {
        let state = lock(&self.state);
        (state.seat, state.is_fenced)
    }

    pub(super) fn sits(&self, seat: u64) {
        lock(&self.state).seat = seat;
    }

    pub(super) fn is_fenced(&self) {
        lock(&self.state).is_fenced = true;
    }

    pub(super) fn leaves(&self) {
        lock(&self.state).phase = Phase::Leaving;
    }

    pub(super) fn waits(&self, order: u64, watch: Watch, ahead: u32, wake: Duration) {
        let now = boot_time();
        let mut state = lock(&self.state);
        // What another one saw may be older than what this one knows by now.
        if matches!(state.phase, Phase::Held | Phase::Leaving) {
            return;
        }
        state.phase = Phase::Waiting;
        state.order = Some(order);
        // One that is dead already and still there, as under a fence, is no reason
        // to hurry: it was just tried.
        state.blocked_until = (!wake.is_zero()).then(|| now + wake);
        let is_as_before = state.ahead == ahead
            && matches!(state.blocked_by, Some((before, _)) if before == watch);
        if !is_as_before {
            state.blocked_by = Some((watch, now));
            state.ahead = ahead;
        }
    }

    /// How many are before it, and since when that is so.
    pub(super) fn blocked(&self) -> (u32, Moment) {
        let state = lock(&self.state);
        let since = state.blocked_by.map_or_else(boot_time, |(_, since)| since);
        (state.ahead, since)
    }

    pub(super) fn is_held(&self, order: u64) {
        let mut state = lock(&self.state);
        if state.phase == Phase::Leaving {
            return;
        }
        state.phase = Phase::Held;
        state.order = Some(order);
    }

    pub(super) fn blocked_until(&self) -> Option<Moment> {
        lock(&self.state).blocked_until
    }

    /// Says what became of it, if something did.
    pub(super) fn tell(&self, standing: Standing) {
        if !matches!(standing, Standing::Waiting { .. }) {
            lock(&self.state).told = Some((standing, boot_time()));
            self.bell.notify_one();
        }
    }

    /// What was told, unless that is a while ago.
    pub(super) fn heard(&self, now: Moment) -> Option<Standing> {
        let (standing, told) = lock(&self.state).told.take()?;
        (now.since(told) < NEWS).then_some(standing)
    }

    pub(super) fn is_waiting(&self) -> bool {
        lock(&self.state).phase == Phase::Waiting
    }

    /// Its order, if it is held.
    pub(super) fn held(&self) -> Option<u64> {
        let state = lock(&self.state);
        (state.phase == Phase::Held)
            .then_some(state.order)
            .flatten()
    }
}

/// Our claims that wait, or waited, for the same lock.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Whose turn it is to look for all.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// When somebody last began to look.
    looked: Mutex<Option<Moment>>,
    members: Mutex<Vec<Weak<Mine>>>,
}

impl Crowd {
    pub(super) fn looks(&self, now: Moment) {
        *lock(&self.looked) = Some(now);
    }

    /// When somebody last began to look, or this moment if that is later.
    pub(super) fn looked(&self, or: Moment) -> Moment {
        lock(&self.looked).map_or(or, |looked| looked.max(or))
    }

    /// Those who still wait.
    pub(super) fn waiting(&self) -> Vec<Arc<Mine>> {
        let mut members = lock(&self.members);
        members.retain(|mine| mine.strong_count() > 0);
        let waiting = members.iter().filter_map(Weak::upgrade);
        waiting.filter(|mine| mine.is_waiting()).collect()
    }
}

/// Our leases and claims.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    claims: Mutex<HashMap<TicketId, Arc<Mine>>>,
    crowds: Mutex<HashMap<Name, Weak<Crowd>>>,
}

impl Inbox {
    pub(super) fn add_lease(&self, lease: Lease, footing: Footing, bell: Option<Bell>) {
        let open = OpenLease {
            lease,
            footing: Mutex::new(footing),
            news: Notify::new(),
            bell,
        };
        lock(&self.leases).insert(lease.id, Arc::new(open));
    }

    pub(super) fn lease(&self, id: LeaseId) -> Option<Arc<OpenLease>> {
        lock(&self.leases).get(&id).cloned()
    }

    /// Ends the lease here. Its claims are known until they are withdrawn.
    pub(super) fn close_lease(&self, id: LeaseId) {
        lock(&self.leases).remove(&id);
    }

    /// The claim of this ticket, made known before it is asked for.
    pub(super) fn admit(&self, ticket: &Ticket) -> Arc<Mine> {
        let made = || {
            Arc::new(Mine {
                claim: ticket.claim.clone(),
                lease: ticket.lease,
                capacity: ticket.capacity,
                state: Mutex::default(),
                bell: Notify::new(),
                crowd: OnceLock::new(),
            })
        };
        let mut claims = lock(&self.claims);
        claims.entry(ticket.claim.id).or_insert_with(made).clone()
    }

    pub(super) fn claim(&self, ticket: TicketId) -> Option<Arc<Mine>> {
        lock(&self.claims).get(&ticket).cloned()
    }

    pub(super) fn forget(&self, ticket: TicketId) {
        lock(&self.claims).remove(&ticket);
    }

    /// All claims of ours that wait for the same lock, this one among them.
    pub(super) fn crowd(&self, mine: &Arc<Mine>) -> Arc<Crowd> {
        let crowd = mine.crowd.get_or_init(|| {
            let name = &mine.claim.name;
            let mut crowds = lock(&self.crowds);
            let crowd = crowds.get(name).and_then(Weak::upgrade);
            let crowd = crowd.unwrap_or_else(|| {
                crowds.retain(|_, crowd| crowd.strong_count() > 0);
                let crowd = Arc::default();
                crowds.insert(name.clone(), Arc::downgrade(&crowd));
                crowd
            });
            lock(&crowd.members).push(Arc::downgrade(mine));
            crowd
        });
        crowd.clone()
    }

    /// The claims of the lease, held or not.
    pub(super) fn claims_of(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let claims = lock(&self.claims);
        let of_lease = claims.values().filter(|mine| mine.lease == lease);
        of_lease.cloned().collect()
    }

    /// Whoever waits looks; one of those who wait for the same lock does it for all.
    pub(super) fn woken(&self) {
        let mut claims: Vec<_> = lock(&self.claims).values().cloned().collect();
        claims.retain(|mine| mine.is_waiting());
        let mut names = HashSet::new();
        let first = claims.iter().filter(|mine| names.insert(&mine.claim.name));
        first.for_each(|mine| mine.bell.notify_one());
    }

    /// Something happened to the server or the way to it: whoever waits looks,
    /// and what is held is verified.
    pub(super) fn missed(&self) {
        let claims: Vec<_> = lock(&self.claims).values().cloned().collect();
        claims.iter().for_each(|mine| mine.bell.notify_one());
        for open in lock(&self.leases).values() {
            open.news.notify_one();
        }
    }
}
