//! What this engine has in the store: its leases and its claims on them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::session::Session;
use super::{lock, record};
use crate::clock::{Moment, boot_time};
use crate::engine::{ClaimRef, Lease, LeaseId, Owner, Ticket, TicketId};

/// A lease of ours: one session.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    pub(super) session: Session,
    pub(super) owner: Owner,
    /// By how much the leader's knowledge of us may lag behind an answer.
    pub(super) lag: Duration,
    /// Rings when a held claim's node has changed.
    pub(super) news: Arc<Notify>,
    /// The connection that the session has been told of.
    known_link: AtomicU64,
    is_end_told: AtomicBool,
    /// Nobody is to keep it alive any more.
    is_closing: AtomicBool,
    next_tick: Mutex<Moment>,
}

impl OpenLease {
    pub(super) fn new(lease: Lease, session: Session, owner: &Owner, lag: Duration) -> Self {
        Self {
            lease,
            known_link: AtomicU64::new(session.current().number),
            session,
            owner: owner.clone(),
            lag,
            news: Arc::default(),
            is_end_told: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            next_tick: Mutex::new(boot_time()),
        }
    }

    /// Whether the session is on a connection that nobody was told of; once.
    pub(super) fn has_moved(&self, link: u64) -> bool {
        self.known_link.swap(link, Ordering::AcqRel) != link
    }

    /// Whether nobody was told that the session is over; once.
    pub(super) fn ends_now(&self) -> bool {
        !self.is_end_told.swap(true, Ordering::AcqRel)
    }

    /// Closing may fail; then the servers end the session if it stays silent.
    pub(super) fn closes(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    fn is_of_use(&self) -> bool {
        !self.session.is_over() && !self.is_closing.load(Ordering::Acquire)
    }

    /// How long until the server is to hear of us again.
    pub(super) fn until_tick(&self) -> Duration {
        lock(&self.next_tick).since(boot_time())
    }

    pub(super) fn ticked(&self, pause: Duration) {
        *lock(&self.next_tick) = boot_time() + pause;
    }
}

/// A claim of ours, from before it is asked for until it is withdrawn.
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) open: Arc<OpenLease>,
    pub(super) capacity: u32,
    /// The lock's node.
    pub(super) parent: String,
    /// The path of the claim's node but for the number.
    pub(super) prefix: String,
    pub(super) data: Vec<u8>,
    /// Rings when what is in the way has changed.
    pub(super) bell: Arc<Notify>,
    state: Mutex<State>,
}

/// A claim's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) czxid: i64,
}

#[derive(Debug, Default)]
struct State {
    node: Option<Node>,
    is_held: bool,
    is_leaving: bool,
    /// A request for a place may have been done without our knowing.
    is_in_doubt: bool,
    /// The same for a request to delete the node.
    is_deleted: bool,
    /// The connection over which the held node is watched.
    watched_over: u64,
    waits_for: Option<String>,
    /// The server does not tell of a node that we may not read.
    is_blind: bool,
}

impl Mine {
    fn new(ticket: &Ticket, open: &Arc<OpenLease>, parent: String, prefix: &str) -> Self {
        Self {
            claim: ticket.claim.clone(),
            open: open.clone(),
            capacity: ticket.capacity,
            prefix: format!("{parent}/{prefix}"),
            parent,
            data: record::write(ticket, &open.owner, open.session.timeout),
            bell: Arc::default(),
            state: Mutex::default(),
        }
    }

    pub(super) fn session(&self) -> &Session {
        &self.open.session
    }

    pub(super) fn node(&self) -> Option<Node> {
        lock(&self.state).node.clone()
    }

    pub(super) fn stands_at(&self, node: Node) {
        let mut state = lock(&self.state);
        state.node = Some(node);
        state.is_in_doubt = false;
    }

    pub(super) fn asked(&self) {
        lock(&self.state).is_in_doubt = true;
    }

    /// It is known that the claim has no node.
    pub(super) fn stands_nowhere(&self) {
        let mut state = lock(&self.state);
        state.node = None;
        state.is_in_doubt = false;
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        lock(&self.state).is_in_doubt
    }

    pub(super) fn is_held(&self) -> bool {
        lock(&self.state).is_held
    }

    pub(super) fn hold(&self) {
        let mut state = lock(&self.state);
        state.is_held = true;
        // A withdrawal that failed is over: it was seen in its place after that.
        state.is_leaving = false;
        state.waits_for = None;
    }

    /// Says that a delete is on its way; whether one was before.
    pub(super) fn deletes(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_leaving = true;
        std::mem::replace(&mut state.is_deleted, true)
    }

    pub(super) fn leave(&self) {
        let mut state = lock(&self.state);
        state.is_leaving = true;
        let waits_for = state.waits_for.take();
        let watched = state.node.as_ref().filter(|_| state.watched_over > 0);
        let watched = watched.map(|node| node.path.clone());
        drop(state);
        // What we do ourselves is no news.
        if let Some(path) = watched {
            self.session().events.forget(&path, &self.open.news);
        }
        if let Some(path) = waits_for {
            self.session().events.forget(&path, &self.bell);
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        lock(&self.state).is_leaving
    }

    /// Has the bell rung when something happens to a node.
    pub(super) fn wait_for(&self, path: &str) {
        self.session().events.watch(path, &self.bell);
        let mut state = lock(&self.state);
        state.waits_for = Some(path.to_owned());
        state.is_blind = false;
    }

    /// Nobody will tell of the node that the claim waits for.
    pub(super) fn wait_blindly(&self) {
        lock(&self.state).is_blind = true;
    }

    pub(super) fn waits_blindly(&self) -> bool {
        lock(&self.state).is_blind
    }

    pub(super) fn is_waiting_for_something(&self) -> bool {
        lock(&self.state).waits_for.is_some()
    }

    /// The node to watch over this connection: once, and again when the server
    /// has told of it, since it forgets a watch then.
    pub(super) fn to_be_watched(&self, link: u64) -> Option<String> {
        let mut state = lock(&self.state);
        if !state.is_held || state.is_leaving {
            return None;
        }
        let path = state.node.as_ref().map(|node| node.path.clone())?;
        let events = &self.session().events;
        if state.watched_over == link && events.is_watched(&path, &self.open.news) {
            return None;
        }
        state.watched_over = link;
        Some(path)
    }
}

/// Without the path, which has the ticket in it.
impl fmt::Debug for Mine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mine")
            .field("claim", &self.claim)
            .field("is_held", &self.is_held())
            .finish_non_exhaustive()
    }
}

/// All leases and claims of an engine.
#[derive(Debug, Default)]
pub(super) struct Claims {
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    claims: Mutex<HashMap<TicketId, Arc<Mine>>>,
}

impl Claims {
    pub(super) fn lease(&self, id: LeaseId) -> Option<Arc<OpenLease>> {
        lock(&self.leases).get(&id).cloned()
    }

    /// Any lease whose session is to live on.
    pub(super) fn any_lease(&self) -> Option<Arc<OpenLease>> {
        let leases = lock(&self.leases);
        let mut living = leases.values().filter(|open| open.is_of_use());
        living.next().cloned()
    }

    pub(super) fn add_lease(&self, open: OpenLease) {
        lock(&self.leases).insert(open.lease.id, Arc::new(open));
    }

    /// Forgets a lease and all its claims.
    pub(super) fn forget_lease(&self, id: LeaseId) {
        lock(&self.leases).remove(&id);
        lock(&self.claims).retain(|_, mine| mine.open.lease.id != id);
    }

    /// The claim of this ticket, made known if it is not.
    pub(super) fn admit(
        &self,
        ticket: &Ticket,
        open: &Arc<OpenLease>,
        parent: String,
        prefix: &str,
    ) -> Arc<Mine> {
        let mut claims = lock(&self.claims);
        let mine = claims.entry(ticket.claim.id);
        mine.or_insert_with(|| Arc::new(Mine::new(ticket, open, parent, prefix)))
            .clone()
    }

    pub(super) fn claim(&self, id: TicketId) -> Option<Arc<Mine>> {
        lock(&self.claims).get(&id).cloned()
    }

    pub(super) fn forget(&self, id: TicketId) {
        lock(&self.claims).remove(&id);
    }

    pub(super) fn of(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let claims = lock(&self.claims);
        let of_lease = claims.values().filter(|mine| mine.open.lease.id == lease);
        of_lease.cloned().collect()
    }
}
