//! What this session has in the store, and what the store has told it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tokio::sync::Notify;

use super::company::Company;
use super::keys::{Hex, Keys, field, inbox, unhex};
use super::link::Ears;
use super::lock;
use crate::clock::Moment;
use crate::engine::{ClaimRef, Lease, LeaseId, Owner, Ticket, TicketId};

/// A lease of ours.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    /// How its claims in the store say whose they are: its own id, `pid host`,
    /// and the label if they have none of their own.
    pub(super) id: Hex,
    pub(super) process: String,
    pub(super) label: String,
    /// Rung when a claim of this lease was broken, or may be gone.
    pub(super) news: Notify,
}

impl OpenLease {
    /// What a claim's record says of where it comes from:
    /// `lease capacity weight holder pid host label`.
    pub(super) fn rest_of(&self, ticket: &Ticket) -> String {
        let (lease, process) = (self.id.as_str(), &self.process);
        let own_label = ticket.label.as_deref().map(field);
        let label = own_label.as_ref().unwrap_or(&self.label);
        let (capacity, weight, holder) = (ticket.capacity, ticket.weight, ticket.holder);
        format!("{lease} {capacity} {weight} {holder} {process} {label}")
    }
}

/// A claim of ours, from before it is asked for until it is withdrawn.
#[derive(Debug)]
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) keys: Keys,
    /// Its ticket, as the scripts know it.
    pub(super) ticket: Hex,
    pub(super) lease: LeaseId,
    state: Mutex<State>,
    /// Rung when the claim should be looked at. It keeps a ring until somebody
    /// waits for it, so none is lost between two waits.
    pub(super) bell: Notify,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    phase: Phase,
    /// The order that a message said is granted. It counts only for the order
    /// that the claim has: a claim that was lost and made anew has another.
    granted: Option<u64>,
    /// When the claim in the way expires.
    blocked_until: Option<Moment>,
    /// A claim of its lease was broken while this one was asked for.
    is_doubtful: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// Asked for, and not yet answered.
    #[default]
    Asked,
    Waiting {
        order: u64,
    },
    /// Alone if there was no other claim when it was granted: then it may be
    /// one still.
    Held {
        is_alone: bool,
    },
    /// Being withdrawn: neither renewed nor missed, but still there.
    Leaving,
}

impl Mine {
    /// From here on it is neither renewed nor missed. Says whether it may be
    /// the only claim on its lock.
    pub(super) fn leaves(&self) -> bool {
        let phase = &mut lock(&self.state).phase;
        let is_alone = *phase == Phase::Held { is_alone: true };
        *phase = Phase::Leaving;
        is_alone
    }

    /// Whether it may be the only claim on its lock.
    pub(super) fn is_alone(&self) -> bool {
        lock(&self.state).phase == Phase::Held { is_alone: true }
    }

    /// There are others by now, or it is gone.
    pub(super) fn is_not_alone(&self) {
        let phase = &mut lock(&self.state).phase;
        if let Phase::Held { is_alone } = phase {
            *is_alone = false;
        }
    }

    pub(super) fn asked(&self) {
        *lock(&self.state) = State::default();
    }

    /// Whether it is asked for and not yet answered.
    pub(super) fn is_asked_for(&self) -> bool {
        lock(&self.state).phase == Phase::Asked
    }

    pub(super) fn waits(&self, order: u64, blocked_until: Moment) {
        let mut state = lock(&self.state);
        state.phase = Phase::Waiting { order };
        state.blocked_until = Some(blocked_until);
    }

    pub(super) fn is_held(&self, is_alone: bool) {
        lock(&self.state).phase = Phase::Held { is_alone };
    }

    pub(super) fn blocked_until(&self) -> Option<Moment> {
        lock(&self.state).blocked_until
    }

    /// The order, if a message said that it is granted.
    pub(super) fn granted(&self) -> Option<u64> {
        let state = lock(&self.state);
        match state.phase {
            Phase::Waiting { order } if state.granted == Some(order) => Some(order),
            _ => None,
        }
    }

    /// A renewal did not find the claim. Says whether it was held; otherwise
    /// whoever waits for it looks.
    pub(super) fn is_missing(&self) -> bool {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Held { .. }) {
            return true;
        }
        state.granted = None;
        drop(state);
        self.bell.notify_one();
        false
    }

    /// A claim of its lease was broken. If the answer of this one is not read yet, it
    /// may be this one, and the renewal that comes now does not tell.
    fn doubt(&self) {
        let mut state = lock(&self.state);
        state.is_doubtful = state.phase == Phase::Asked;
    }

    /// Whether it has to be renewed at once to know whether it is still there. Said
    /// once.
    pub(super) fn is_doubtful(&self) -> bool {
        std::mem::take(&mut lock(&self.state).is_doubtful)
    }
}

/// Our leases and claims.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    claims: Mutex<HashMap<TicketId, Arc<Mine>>>,
    /// Those who are on their way together.
    company: OnceLock<Weak<Company>>,
}

impl Inbox {
    /// It is told when connections are lost.
    pub(super) fn accompany(&self, company: &Arc<Company>) {
        let _ = self.company.set(Arc::downgrade(company));
    }

    pub(super) fn add_lease(&self, lease: Lease, owner: &Owner) {
        let open = OpenLease {
            id: Hex::of(lease.id.0),
            process: format!("{} {}", owner.pid(), field(owner.host())),
            label: field(owner.label()),
            lease,
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

    /// The claim of this ticket, made known before it is asked for, so that no
    /// renewal overlooks it.
    pub(super) fn admit(&self, ticket: &Ticket) -> Arc<Mine> {
        let mut claims = lock(&self.claims);
        let made = || {
            Arc::new(Mine {
                claim: ticket.claim.clone(),
                keys: Keys::of(&ticket.claim.name),
                ticket: Hex::of(ticket.claim.id.0),
                lease: ticket.lease,
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

    /// The claims of the lease that are to be kept.
    pub(super) fn kept_by(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let mut claims = self.claims_of(lease);
        claims.retain(|mine| lock(&mine.state).phase != Phase::Leaving);
        claims
    }

    pub(super) fn claims_of(&self, lease: LeaseId) -> Vec<Arc<Mine>> {
        let claims = lock(&self.claims);
        let of_lease = claims.values().filter(|mine| mine.lease == lease);
        of_lease.cloned().collect()
    }

    pub(super) fn is_anyone_waiting(&self, lease: LeaseId) -> bool {
        let is_waiting = |mine: &Arc<Mine>| {
            mine.lease == lease && matches!(lock(&mine.state).phase, Phase::Waiting { .. })
        };
        lock(&self.claims).values().any(is_waiting)
    }

    fn read(&self, channel: &str, message: &[u8]) {
        let Ok(message) = std::str::from_utf8(message) else {
            return;
        };
        if message == "renew" {
            let open = {
                let leases = lock(&self.leases);
                let mut open = leases.values();
                open.find(|open| inbox(open.lease.id) == channel).cloned()
            };
            if let Some(open) = open {
                let claims = self.claims_of(open.lease.id);
                claims.iter().for_each(|mine| mine.doubt());
                open.news.notify_one();
            }
        } else if let Some((ticket, order)) = granted(message)
            && let Some(mine) = self.claim(ticket)
        {
            lock(&mine.state).granted = Some(order);
            mine.bell.notify_one();
        }
    }

    /// Whoever waits looks: a message may have been missed.
    pub(super) fn ring_all(&self) {
        let claims: Vec<_> = lock(&self.claims).values().cloned().collect();
        claims.iter().for_each(|mine| mine.bell.notify_one());
    }
}

impl Ears for Inbox {
    fn hear(&self, channel: &str, message: &[u8]) {
        self.read(channel, message);
    }

    fn missed(&self) {
        if let Some(company) = self.company.get().and_then(Weak::upgrade) {
            company.set_out_anew();
        }
        self.ring_all();
        for open in lock(&self.leases).values() {
            open.news.notify_one();
        }
    }
}

/// `held TICKET ORDER`
fn granted(message: &str) -> Option<(TicketId, u64)> {
    let (ticket, order) = message.strip_prefix("held ")?.split_once(' ')?;
    Some((unhex(ticket)?, order.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    fn admitted(inbox: &Inbox) -> Arc<Mine> {
        inbox.admit(&Ticket {
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
    fn what_is_broken_before_its_grant_was_read_is_renewed_once_more() {
        let inbox = Inbox::default();
        inbox.add_lease(
            Lease {
                id: LeaseId(1),
                ttl: std::time::Duration::from_secs(1),
            },
            &Owner::seen("host", 1, String::new()),
        );
        let mine = admitted(&inbox);
        let channel = super::inbox(LeaseId(1));
        // A renewal that does not find it says nothing: it may not have arrived yet.
        assert!(!mine.is_missing());
        mine.is_held(true);
        assert!(!mine.is_doubtful());
        mine.asked();
        inbox.read(&channel, b"renew");
        mine.is_held(true);
        assert!(mine.is_doubtful());
        assert!(!mine.is_doubtful(), "once");
        // One that is held is told by the renewal itself.
        inbox.read(&channel, b"renew");
        assert!(!mine.is_doubtful());
    }

    #[test]
    fn a_grant_counts_for_the_order_that_the_claim_has() {
        let inbox = Inbox::default();
        let mine = admitted(&inbox);
        inbox.read("lh:inbox:1", b"held 00000000000000000000000000000007 32");
        // Made anew since: the message was for the claim before.
        mine.waits(64, Moment::from_nanos(0));
        assert_eq!(mine.granted(), None);
        inbox.read("lh:inbox:1", b"held 00000000000000000000000000000007 64");
        assert_eq!(mine.granted(), Some(64));
    }

    #[test]
    fn garbage_is_not_heard() {
        let inbox = Inbox::default();
        for garbage in [&b"held x 1"[..], b"held", b"\xff", b""] {
            inbox.hear("lh:inbox:1", garbage);
        }
        assert!(!inbox.is_anyone_waiting(LeaseId(1)));
    }
}
