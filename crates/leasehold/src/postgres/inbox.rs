//! What this session has in the store, and what the store has told it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::lock;
use super::text::bits;
use crate::clock::{Moment, boot_time};
use crate::engine::{ClaimRef, Lease, LeaseId, Ticket, TicketId};

/// A lease of ours.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    /// Requests for a place name it; another one comes too late.
    epoch: AtomicU64,
    /// The server that has no claim of this lease that we do not know.
    pub(super) agreed: Mutex<String>,
    /// Rung when a claim of this lease was broken, or may be gone.
    pub(super) news: Notify,
}

impl OpenLease {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(super) fn learn_epoch(&self, epoch: u64) {
        // Not the greater of the two: a failover may have forgotten some.
        self.epoch.store(epoch, Ordering::Release);
    }
}

/// A claim of ours, from before it is asked for until it is withdrawn.
#[derive(Debug)]
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) lease: LeaseId,
    state: Mutex<State>,
    /// Rung when the claim should be looked at. It keeps a ring until somebody
    /// waits for it, so none is lost between two waits.
    pub(super) bell: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    phase: Phase,
    order: Option<u64>,
    /// The order that a message said is granted. It counts only for the order
    /// that the claim has.
    granted: Option<u64>,
    /// When the claim in the way expires.
    blocked_until: Option<Moment>,
    /// How many requests for it have not been answered.
    unanswered: u32,
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
    /// A request for it goes out.
    pub(super) fn asked(&self) {
        lock(&self.state).unanswered += 1;
    }

    /// The request that went out last is answered, and those before it too if
    /// it called them back.
    pub(super) fn answered(&self) {
        let unanswered = &mut lock(&self.state).unanswered;
        *unanswered = unanswered.saturating_sub(1);
    }

    /// Whether a request for it may still be on its way.
    pub(super) fn is_in_doubt(&self) -> bool {
        lock(&self.state).unanswered > 0
    }

    pub(super) fn nothing_comes_any_more(&self) {
        lock(&self.state).unanswered = 0;
    }

    pub(super) fn order(&self) -> Option<u64> {
        lock(&self.state).order
    }

    pub(super) fn leaves(&self) {
        lock(&self.state).phase = Phase::Leaving;
    }

    pub(super) fn waits(&self, order: u64, wake: Duration) {
        let mut state = lock(&self.state);
        state.phase = Phase::Waiting;
        state.order = Some(order);
        state.blocked_until = Some(boot_time() + wake);
    }

    pub(super) fn is_held(&self, order: u64) {
        let mut state = lock(&self.state);
        state.phase = Phase::Held;
        state.order = Some(order);
    }

    pub(super) fn blocked_until(&self) -> Option<Moment> {
        lock(&self.state).blocked_until
    }

    /// It may be gone, also if a message said before that it is granted: whoever
    /// waits looks.
    fn looks(&self) {
        lock(&self.state).granted = None;
        self.bell.notify_one();
    }

    /// The order, if a message said that it is granted.
    pub(super) fn granted(&self) -> Option<u64> {
        let state = lock(&self.state);
        match state.phase {
            Phase::Waiting if state.granted.is_some() && state.granted == state.order => {
                state.order
            }
            _ => None,
        }
    }

    /// Its order, if it is held.
    pub(super) fn held(&self) -> Option<u64> {
        let state = lock(&self.state);
        (state.phase == Phase::Held)
            .then_some(state.order)
            .flatten()
    }
}

/// Our leases and claims.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    claims: Mutex<HashMap<TicketId, Arc<Mine>>>,
}

impl Inbox {
    pub(super) fn add_lease(&self, lease: Lease, epoch: u64, server: &str) {
        let open = OpenLease {
            lease,
            epoch: AtomicU64::new(epoch),
            agreed: Mutex::new(server.to_owned()),
            news: Notify::new(),
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
                state: Mutex::default(),
                bell: Notify::new(),
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

    /// The claims of the lease, held or not.
    pub(super) fn claims_of(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let claims = lock(&self.claims);
        let of_lease = claims.values().filter(|mine| mine.lease == lease);
        of_lease.cloned().collect()
    }

    /// A message on the channel of a lease: `renew`, or a ticket and the order
    /// with which it is granted.
    pub(super) fn hear(&self, lease: LeaseId, message: &str) {
        if message == "renew" {
            if let Some(open) = self.lease(lease) {
                open.news.notify_one();
            }
            let claims = self.claims_of(lease);
            claims.iter().for_each(|mine| mine.looks());
        } else if let Some((ticket, order)) = granted(message)
            && let Some(mine) = self.claim(ticket)
        {
            lock(&mine.state).granted = Some(order);
            mine.bell.notify_one();
        }
    }

    /// Messages may have been missed: whoever waits looks, and what is held is
    /// verified.
    pub(super) fn missed(&self) {
        let claims: Vec<_> = lock(&self.claims).values().cloned().collect();
        claims.iter().for_each(|mine| mine.looks());
        for open in lock(&self.leases).values() {
            open.news.notify_one();
        }
    }
}

fn granted(message: &str) -> Option<(TicketId, u64)> {
    let (ticket, order) = message.split_once(' ')?;
    Some((TicketId(bits(ticket)?), order.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    #[test]
    fn a_grant_counts_for_the_order_that_the_claim_has() {
        let inbox = Inbox::default();
        let mine = inbox.admit(&Ticket {
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
        });
        inbox.hear(LeaseId(1), "00000000-0000-0000-0000-000000000007 32");
        mine.waits(64, Duration::ZERO);
        assert_eq!(mine.granted(), None);
        inbox.hear(LeaseId(1), "00000000-0000-0000-0000-000000000007 64");
        assert_eq!(mine.granted(), Some(64));
        // Broken right after its grant, or maybe so.
        inbox.hear(LeaseId(1), "renew");
        assert_eq!(mine.granted(), None);
        inbox.hear(LeaseId(1), "00000000-0000-0000-0000-000000000007 64");
        inbox.missed();
        assert_eq!(mine.granted(), None);
        inbox.hear(LeaseId(1), "00000000-0000-0000-0000-000000000007 64");
        for garbage in ["", "x 1", "7 7"] {
            inbox.hear(LeaseId(1), garbage);
        }
        assert_eq!(mine.granted(), Some(64));
    }
}
