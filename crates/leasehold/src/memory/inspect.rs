//! The memory store as people and tests look at it.

use async_trait::async_trait;

use super::{Memory, Record, claims, labelled};
use crate::engine::{Claimant, Finding, Inspect, Queue, Severity, TicketId};
use crate::error::Result;
use crate::fence::Token;
use crate::name::Name;
use crate::rule;

#[async_trait]
impl Inspect for Memory {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let now = self.clock.now();
        let state = self.state();
        let empty = Vec::new();
        let queue = state.locks.get(name).unwrap_or(&empty);
        let capacity = queue.first().map_or(0, |record| record.ticket.capacity);
        let held = rule::holders(capacity, &claims(queue));
        let claimant = |(at, record): (usize, &Record)| {
            let lease = state.leases.get(&record.ticket.lease)?;
            Some(Claimant {
                id: record.ticket.claim.id,
                owner: labelled(&lease.owner, &record.ticket),
                session: Some(record.ticket.lease),
                is_holder: at < held,
                weight: record.ticket.weight,
                token: (at < held).then(|| Token::new(record.order)),
                holder: record.ticket.holder,
                age: now.since(record.since),
                time_left: lease.expires.since(now),
            })
        };
        let of_name = state.evictions.iter().filter(|(broken, _)| broken == name);
        Ok(Queue {
            capacity,
            claims: queue.iter().enumerate().filter_map(claimant).collect(),
            evictions: of_name.map(|(_, eviction)| eviction.clone()).collect(),
        })
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let state = self.state();
        let names = state
            .locks
            .keys()
            .filter(|name| name.as_str().starts_with(prefix));
        Ok(names.cloned().collect())
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding {
            severity: Severity::Warning,
            what: "the store lives in the memory of one process".into(),
            remedy: "use it for tests only; sqlite:PATH is shared by the machine".into(),
        }])
    }
}

impl Memory {
    /// For tests: the store forgets the lease, as after a crash of its own.
    #[doc(hidden)]
    pub fn forget_leases(&self) {
        let mut state = self.state();
        state.leases.clear();
        state.drop_orphans();
        self.changed.notify_waiters();
    }

    /// For tests: how many claims there are, waiting ones included.
    #[doc(hidden)]
    pub fn claim_count(&self) -> usize {
        self.state().locks.values().map(Vec::len).sum()
    }

    /// For tests: the claims of a name as the rule sees them, with their ids.
    #[doc(hidden)]
    pub fn holders_of(&self, name: &Name) -> Vec<TicketId> {
        let state = self.state();
        let Some(queue) = state.locks.get(name) else {
            return Vec::new();
        };
        let capacity = queue.first().map_or(0, |record| record.ticket.capacity);
        let held = rule::holders(capacity, &claims(queue));
        queue[..held]
            .iter()
            .map(|record| record.ticket.claim.id)
            .collect()
    }
}
