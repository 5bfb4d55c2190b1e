//! What a session has on the nodes: its leases and claims, as far as it knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::keys::Keys;
use crate::clock::Moment;
use crate::engine::{ClaimRef, Lease, LeaseId, Owner, Ticket, TicketId};
use crate::redis::keys::{Hex, inbox};
use crate::redis::{lock, whole_millis};

/// How much longer than the lock a note lives.
const NOTE_LIVES_ON: Duration = Duration::from_secs(60 * 60);

/// A lease of ours. The nodes know nothing of it.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    pub(super) owner: Owner,
    /// How long a node may take to answer.
    pub(super) limit: Duration,
    /// Rung when held claims should be looked at.
    pub(super) news: Notify,
    /// The same, for a renewal that is under way.
    pub(super) changes: Notify,
    /// When the last renewal of all claims began.
    renewal: Mutex<Option<Moment>>,
}

impl OpenLease {
    pub(super) fn new(lease: Lease, owner: &Owner, limit: Duration) -> Self {
        Self {
            lease,
            owner: owner.clone(),
            limit,
            news: Notify::new(),
            changes: Notify::new(),
            renewal: Mutex::default(),
        }
    }

    fn ring(&self) {
        self.news.notify_one();
        self.changes.notify_one();
    }

    /// How long a note lives, in milliseconds.
    pub(super) fn note_millis(&self) -> String {
        whole_millis(self.lease.ttl + NOTE_LIVES_ON).to_string()
    }
}

/// A claim of ours, from before it is asked for until it is withdrawn.
#[derive(Debug)]
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) keys: Keys,
    pub(super) lease: LeaseId,
    pub(super) holder: u64,
    pub(super) ttl: Duration,
    state: Mutex<State>,
    /// Rung when enough nodes may have the lock free.
    pub(super) bell: Notify,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    trace: Option<Trace>,
    /// When it was asked for, or renewed by a majority.
    sent: Option<Moment>,
    /// The token, if it is held.
    token: u64,
    /// When a majority has the lock free unless its holder renews.
    free_at: Option<Moment>,
    /// The nodes that have it free, as bits, since they were last looked at.
    free: u64,
    /// How often in a row somebody else was faster.
    lost_races: u32,
}

/// What an attempt may have left on the nodes.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    /// Each attempt has its own.
    pub(super) id: Hex,
    pub(super) sent: Moment,
    /// Over which connection each node was asked; `None` if it answered.
    pub(super) over: Vec<Option<u64>>,
    /// The nodes that are known to have it.
    pub(super) granted: Vec<usize>,
    /// It came to nothing.
    pub(super) is_failed: bool,
}

impl Trace {
    /// Whether the node has it, or may have.
    pub(super) fn may_be_on(&self, node: usize) -> bool {
        self.over[node].is_some() || self.granted.contains(&node)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// Asked for, and not yet answered.
    #[default]
    Asked,
    /// Held by another.
    Waiting,
    Held,
    /// Being withdrawn: neither renewed nor missed, but still there.
    Leaving,
}

impl Mine {
    /// It is asked for, under a new id. Says whether it may be: not if it is
    /// being withdrawn.
    pub(super) fn asked(&self, id: Hex, sent: Moment, over: Vec<Option<u64>>) -> bool {
        let mut state = lock(&self.state);
        if state.phase == Phase::Leaving {
            return false;
        }
        state.phase = Phase::Asked;
        state.sent = Some(sent);
        state.trace = Some(Trace {
            id,
            sent,
            over,
            granted: Vec::new(),
            is_failed: false,
        });
        true
    }

    /// What is known by now of the nodes.
    pub(super) fn answered(&self, over: Vec<Option<u64>>, granted: Vec<usize>) {
        if let Some(trace) = &mut lock(&self.state).trace {
            (trace.over, trace.granted) = (over, granted);
        }
    }

    /// The attempt came to nothing. Returns what it left.
    pub(super) fn failed(&self) -> Option<Trace> {
        let mut state = lock(&self.state);
        let trace = state.trace.as_mut()?;
        trace.is_failed = true;
        Some(trace.clone())
    }

    /// The nodes have nothing of it, or somebody sees to that. It is asked for
    /// again when a majority may be free.
    pub(super) fn waits(&self, free_at: Option<Moment>) {
        let mut state = lock(&self.state);
        state.phase = Phase::Waiting;
        state.trace = None;
        state.free_at = free_at;
        state.lost_races += 1;
    }

    /// How often in a row somebody else was faster.
    pub(super) fn lost_races(&self) -> u32 {
        lock(&self.state).lost_races
    }

    /// What is on the nodes is seen to by others.
    pub(super) fn has_nothing(&self) {
        lock(&self.state).trace = None;
    }

    pub(super) fn leaves(&self) -> Option<Trace> {
        let mut state = lock(&self.state);
        state.phase = Phase::Leaving;
        state.trace.clone()
    }

    pub(super) fn id(&self) -> Option<Hex> {
        let state = lock(&self.state);
        state.trace.as_ref().map(|trace| trace.id.clone())
    }

    pub(super) fn free_at(&self) -> Option<Moment> {
        lock(&self.state).free_at
    }

    pub(super) fn is_held(&self) -> bool {
        self.token().is_some()
    }

    /// Its token, if it is held.
    pub(super) fn token(&self) -> Option<u64> {
        let state = lock(&self.state);
        (state.phase == Phase::Held).then_some(state.token)
    }

    fn is_waiting(&self) -> bool {
        lock(&self.state).phase == Phase::Waiting
    }

    /// It is looked at anew.
    pub(super) fn looks(&self) {
        lock(&self.state).free = 0;
    }

    /// The node has it free, or may have. Says how many have.
    pub(super) fn is_free_on(&self, node: usize) -> u32 {
        let mut state = lock(&self.state);
        state.free |= 1 << node;
        state.free.count_ones()
    }

    /// How long ago it was asked for, or renewed by a majority.
    pub(super) fn age(&self, now: Moment) -> Duration {
        let sent = lock(&self.state).sent;
        sent.map_or(Duration::ZERO, |sent| now.since(sent))
    }

    /// A renewal was granted by a majority.
    pub(super) fn renewed(&self, sent: Moment) {
        let mut state = lock(&self.state);
        state.sent = state.sent.max(Some(sent));
    }
}

/// Our leases and claims.
#[derive(Debug, Default)]
pub(super) struct Claims {
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    claims: Mutex<HashMap<TicketId, Arc<Mine>>>,
}

impl Claims {
    pub(super) fn add_lease(&self, open: OpenLease) {
        lock(&self.leases).insert(open.lease.id, Arc::new(open));
    }

    pub(super) fn lease(&self, id: LeaseId) -> Option<Arc<OpenLease>> {
        lock(&self.leases).get(&id).cloned()
    }

    /// Ends the lease here. Its claims are known until they are withdrawn.
    pub(super) fn close_lease(&self, id: LeaseId) -> Option<Arc<OpenLease>> {
        lock(&self.leases).remove(&id)
    }

    /// The claim of this ticket.
    pub(super) fn admit(&self, ticket: &Ticket, ttl: Duration) -> Arc<Mine> {
        let mut claims = lock(&self.claims);
        let made = || {
            Arc::new(Mine {
                claim: ticket.claim.clone(),
                keys: Keys::of(&ticket.claim.name),
                lease: ticket.lease,
                holder: ticket.holder,
                ttl,
                state: Mutex::default(),
                bell: Notify::new(),
            })
        };
        claims.entry(ticket.claim.id).or_insert_with(made).clone()
    }

    pub(super) fn claim(&self, ticket: TicketId) -> Option<Arc<Mine>> {
        lock(&self.claims).get(&ticket).cloned()
    }

    pub(super) fn forget(&self, ticket: TicketId) {
        lock(&self.claims).remove(&ticket);
    }

    pub(super) fn of(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let claims = lock(&self.claims);
        let of_lease = claims.values().filter(|mine| mine.lease == lease);
        of_lease.cloned().collect()
    }

    /// The claim is held, unless a renewal of the lease began after it was asked
    /// for: the lease then lasts longer than this claim, which has to be renewed
    /// first.
    pub(super) fn hold(&self, open: &OpenLease, mine: &Mine, token: u64) -> bool {
        let renewal = lock(&open.renewal);
        let mut state = lock(&mine.state);
        if state.phase == Phase::Leaving || *renewal > state.sent {
            return false;
        }
        state.phase = Phase::Held;
        state.token = token;
        state.lost_races = 0;
        true
    }

    /// A renewal of the lease begins. These are the claims that it has to keep.
    pub(super) fn begin_renewal(&self, open: &OpenLease, now: Moment) -> Vec<Arc<Mine>> {
        let mut renewal = lock(&open.renewal);
        *renewal = Some(now);
        let mut claims = self.of(open.lease.id);
        claims.retain(|mine| mine.is_held());
        claims
    }

    /// These locks changed on the node, or all of them may have.
    pub(super) fn changed(&self, node: usize, majority: usize, names: Option<&[String]>) {
        let claims: Vec<_> = lock(&self.claims)
            .values()
            .filter(|mine| names.is_none_or(|names| names.contains(&mine.keys.lock)))
            .filter(|mine| mine.is_waiting())
            .cloned()
            .collect();
        for mine in claims {
            if mine.is_free_on(node) as usize >= majority {
                mine.bell.notify_one();
            }
        }
    }
}

impl Claims {
    /// A message came on a channel: somebody broke a lock of ours.
    pub(super) fn hear(&self, channel: &str, message: &[u8]) {
        if message != b"renew" {
            return;
        }
        let leases = lock(&self.leases);
        if let Some(open) = leases.values().find(|open| inbox(open.lease.id) == channel) {
            open.ring();
        }
    }

    /// A connection was lost: messages may be missing, and keys.
    pub(super) fn missed(&self) {
        for open in lock(&self.leases).values() {
            open.ring();
        }
    }
}
