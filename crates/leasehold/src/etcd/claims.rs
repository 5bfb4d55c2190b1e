//! What this engine has in the store: its leases and its claims on them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::keys::{self, Range};
use super::request::put;
use super::watching::Watcher;
use super::wire::{RangeResponse, RequestOp};
use super::{lock, record};
use crate::engine::{ClaimRef, Lease, LeaseId, Owner, Ticket, TicketId};

/// What a session writes into its own inbox. What others write is empty.
const OUR_WORD: &[u8] = b"1";

/// A lease of ours.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    pub(super) number: i64,
    pub(super) owner: Owner,
    pub(super) inbox: Vec<u8>,
    /// The revision that last wrote the inbox, 0 if nobody has. Every request
    /// for a place names it, so writing the inbox calls back all that are still
    /// on their way.
    epoch: AtomicI64,
    /// Rings when somebody else wrote the inbox, and when it went: it goes with
    /// the lease.
    pub(super) news: Watcher,
}

impl OpenLease {
    pub(super) fn new(lease: Lease, owner: &Owner, news: Watcher) -> Self {
        let number = keys::number(lease.id);
        Self {
            lease,
            number,
            owner: owner.clone(),
            inbox: keys::inbox(number),
            epoch: AtomicI64::new(0),
            news,
        }
    }

    pub(super) fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// What makes the inbox, beside the first claim. From then on its going
    /// says that the lease is over.
    pub(super) fn first_word(&self, epoch: i64) -> Option<RequestOp> {
        (epoch == 0).then(|| self.word())
    }

    /// A request with that in it was carried out.
    pub(super) fn has_spoken(&self, epoch: i64, revision: i64) {
        if epoch == 0 {
            self.learn_epoch(revision);
        }
    }

    /// Writes the inbox. It is for the store, and rings nobody.
    pub(super) fn word(&self) -> RequestOp {
        put(&self.inbox, OUR_WORD, self.number)
    }

    /// Takes in what the store says of the inbox in answer to a request that
    /// named this epoch; whether the lease can still be there: an inbox that
    /// was written goes with it.
    pub(super) fn see_inbox(&self, inbox: &RangeResponse, asked: i64) -> bool {
        match inbox.kvs.first() {
            Some(kv) => self.learn_epoch(kv.mod_revision),
            None => return asked == 0,
        }
        true
    }

    pub(super) fn learn_epoch(&self, revision: i64) {
        self.epoch.fetch_max(revision, Ordering::AcqRel);
    }
}

/// A claim of ours, from before it is asked for until it is withdrawn.
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) lease: LeaseId,
    pub(super) capacity: u32,
    pub(super) weight: u32,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Where its queue is.
    pub(super) queue: Range,
    /// How many requests for a place were sent and not answered.
    unanswered: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The revision that made the key.
    order: Option<i64>,
    is_held: bool,
    is_leaving: bool,
    /// Rings when what is in the way goes.
    watcher: Option<Arc<Watcher>>,
}

impl Mine {
    fn new(ticket: &Ticket, owner: &Owner, is_taken: impl Fn(&[u8]) -> bool) -> Self {
        let (name, capacity) = (&ticket.claim.name, ticket.capacity);
        let (key, queue) = match capacity {
            1 => {
                let lease = keys::number(ticket.lease);
                let mut key = keys::mutex_claim(name, lease);
                if is_taken(&key) {
                    key = keys::mutex_claim_beside(name, lease, ticket.claim.id);
                }
                (key, keys::mutex(name))
            }
            _ => {
                let key = keys::shared_claim(name, capacity, ticket.claim.id);
                (key, keys::shared_with(name, capacity))
            }
        };
        Self {
            claim: ticket.claim.clone(),
            lease: ticket.lease,
            capacity,
            weight: ticket.weight,
            key,
            value: record::write(ticket, owner),
            queue,
            unanswered: AtomicU32::new(0),
            state: Mutex::default(),
        }
    }

    pub(super) fn order(&self) -> Option<i64> {
        lock(&self.state).order
    }

    pub(super) fn stands_at(&self, order: i64) {
        lock(&self.state).order = Some(order);
    }

    pub(super) fn is_held(&self) -> bool {
        lock(&self.state).is_held
    }

    pub(super) fn hold(&self) {
        let mut state = lock(&self.state);
        state.is_held = true;
        state.watcher = None;
    }

    pub(super) fn watcher(&self) -> Option<Arc<Watcher>> {
        lock(&self.state).watcher.clone()
    }

    pub(super) fn wait_on(&self, watcher: Watcher) {
        lock(&self.state).watcher = Some(Arc::new(watcher));
    }

    pub(super) fn leave(&self) {
        lock(&self.state).is_leaving = true;
    }

    pub(super) fn is_leaving(&self) -> bool {
        lock(&self.state).is_leaving
    }

    /// Whether a request that nobody listens to may still be on its way.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) > 0
    }

    pub(super) fn asked(&self) {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Without the value, which proves the ownership.
impl fmt::Debug for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mine")
            .field("claim", &self.claim)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// All leases and claims of an engine.
#[derive(Debug, Default)]
pub(super) struct Claims {
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    claims: Mutex<ById>,
}

#[derive(Default)]
struct ById {
    by_id: HashMap<TicketId, Arc<Mine>>,
    keys: HashSet<Vec<u8>>,
}

impl fmt::Debug for ById {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_id.values()).finish()
    }
}

impl Claims {
    pub(super) fn lease(&self, id: LeaseId) -> Option<Arc<OpenLease>> {
        lock(&self.leases).get(&id).cloned()
    }

    pub(super) fn add_lease(&self, open: OpenLease) {
        lock(&self.leases).insert(open.lease.id, Arc::new(open));
    }

    /// Forgets a lease and all its claims.
    pub(super) fn forget_lease(&self, id: LeaseId) {
        lock(&self.leases).remove(&id);
        let ById { by_id, keys } = &mut *lock(&self.claims);
        by_id.retain(|_, mine| {
            let stays = mine.lease != id;
            if !stays {
                keys.remove(&mine.key);
            }
            stays
        });
    }

    /// The claim of this ticket, made known if it is not.
    pub(super) fn admit(&self, ticket: &Ticket, owner: &Owner) -> Arc<Mine> {
        let ById { by_id, keys } = &mut *lock(&self.claims);
        let mine = by_id.entry(ticket.claim.id).or_insert_with(|| {
            let mine = Mine::new(ticket, owner, |key| keys.contains(key));
            keys.insert(mine.key.clone());
            Arc::new(mine)
        });
        mine.clone()
    }

    pub(super) fn claim(&self, id: TicketId) -> Option<Arc<Mine>> {
        lock(&self.claims).by_id.get(&id).cloned()
    }

    pub(super) fn forget(&self, id: TicketId) {
        let ById { by_id, keys } = &mut *lock(&self.claims);
        if let Some(mine) = by_id.remove(&id) {
            keys.remove(&mine.key);
        }
    }

    /// The claims of a lease that the store is known to have taken in.
    pub(super) fn standing(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let claims = lock(&self.claims);
        let of_lease = claims.by_id.values().filter(|mine| mine.lease == lease);
        of_lease
            .filter(|mine| mine.order().is_some())
            .cloned()
            .collect()
    }
}
