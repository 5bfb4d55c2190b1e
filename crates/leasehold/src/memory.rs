//! The engine in memory: the reference for all others, for doctests, tests and
//! simulation. It lives on the runtime's clock, so paused time works.
//!
//! A lock is a vector of claims in order of arrival; who holds is what
//! `rule::verdict` says. An order is drawn from one counter at the end of the
//! queue and is the claim's first token: holders are a prefix, so grants on a
//! name happen in that order.

mod inspect;
mod memo;
mod stamp;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::clock::{Clock, Moment, wall_time};
use crate::engine::{
    Cause, ClaimRef, Engine, Eviction, GoneClaim, Inspect, Lease, LeaseId, Mark, Memo, Noted,
    Owner, Reading, Renewal, Standing, Ticket, Watch, Withdrawn,
};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::guard::Lost;
use crate::name::Name;
use crate::promises::{Grade, Promises, Reach};
use crate::random::random_u128;
use crate::rule::{self, Verdict};

/// How many tokens one grant may be split into.
const TOKENS_PER_GRANT: u32 = 32;
/// A wake-up cannot get lost in memory; this is for symmetry with real stores.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How many broken locks are remembered.
const EVICTIONS: usize = 100;

/// A store in this process's memory.
#[derive(Debug)]
pub struct Memory {
    clock: Clock,
    state: Mutex<State>,
    /// Rung when a queue or a lease has changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    last_order: u64,
    leases: BTreeMap<LeaseId, LeaseRecord>,
    locks: BTreeMap<Name, Vec<Record>>,
    evictions: Vec<(Name, Eviction)>,
    memos: BTreeMap<Name, memo::Kept>,
    /// While such a mark is there the lock has had no writer since it was made.
    marks: BTreeMap<Name, (u64, Moment)>,
    /// With so many marks those that nobody needs are looked for.
    most_marks: usize,
}

#[derive(Debug)]
struct LeaseRecord {
    owner: Owner,
    ttl: Duration,
    expires: Moment,
    /// Claims that were broken: reported with every renewal until the session
    /// withdraws them, because a reply may be lost.
    gone: Vec<GoneClaim>,
    /// The session has not been told to look yet.
    has_news: bool,
}

#[derive(Debug)]
struct Record {
    order: u64,
    ticket: Ticket,
    since: Moment,
}

impl Memory {
    /// A new, empty store. Must be called in a tokio runtime.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::runtime(),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// The store of this name in this process, made if it is not there; a new
    /// one of its own if the name is empty.
    pub(crate) fn named(name: &str) -> Arc<Self> {
        static STORES: LazyLock<Mutex<HashMap<String, Weak<Memory>>>> =
            LazyLock::new(Mutex::default);
        if name.is_empty() {
            return Self::new();
        }
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return store;
        }
        let store = Self::new();
        stores.insert(name.to_owned(), Arc::downgrade(&store));
        store
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The state, without what has expired by now.
    fn state(&self) -> MutexGuard<'_, State> {
        let now = self.clock.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.expire(now) {
            self.changed.notify_waiters();
        }
        state
    }
}

impl State {
    /// Drops what has expired; says whether there was anything.
    fn expire(&mut self, now: Moment) -> bool {
        let before = self.leases.len();
        self.leases.retain(|_, lease| lease.expires > now);
        let is_changed = self.leases.len() < before;
        if is_changed {
            self.drop_orphans();
        }
        is_changed
    }

    fn drop_orphans(&mut self) {
        let leases = &self.leases;
        self.locks.retain(|_, queue| {
            queue.retain(|record| leases.contains_key(&record.ticket.lease));
            !queue.is_empty()
        });
    }

    fn standing(&self, claim: &ClaimRef) -> Standing {
        let Some(queue) = self.locks.get(&claim.name) else {
            return Standing::Gone;
        };
        let Some(at) = queue
            .iter()
            .position(|record| record.ticket.claim.id == claim.id)
        else {
            return Standing::Gone;
        };
        let record = &queue[at];
        match rule::verdict(record.ticket.capacity, &claims(queue), record.order) {
            Some(Verdict::Held) => Standing::Held {
                token: Token::new(record.order),
            },
            Some(Verdict::Waiting(watch)) => Standing::Waiting {
                watch,
                ahead: u32::try_from(at).unwrap_or(u32::MAX),
            },
            None => Standing::Gone,
        }
    }

    fn next_expiry(&self) -> Option<Moment> {
        self.leases.values().map(|lease| lease.expires).min()
    }
}

fn claims(queue: &[Record]) -> Vec<rule::Claim> {
    let claim = |record: &Record| rule::Claim {
        order: record.order,
        weight: record.ticket.weight,
    };
    queue.iter().map(claim).collect()
}

#[async_trait]
impl Engine for Memory {
    fn promises(&self) -> Promises {
        Promises {
            fair: true,
            rwlock: true,
            semaphore: true,
            fence: Grade::Ordered,
            tokens_per_grant: TOKENS_PER_GRANT,
            memo: true,
            retention: true,
            stamp: true,
            stamp_word: true,
            holders: true,
            ..Promises::least(Reach::Process)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let id = LeaseId(random_u128());
        let expires = self.clock.now() + ttl;
        let record = LeaseRecord {
            owner: owner.clone(),
            ttl,
            expires,
            gone: Vec::new(),
            has_news: false,
        };
        self.state().leases.insert(id, record);
        Ok(Lease { id, ttl })
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        let mut state = self.state();
        let Some(record) = state.leases.get_mut(&lease.id) else {
            return Ok(Renewal::LeaseGone);
        };
        record.expires = self.clock.now() + record.ttl;
        Ok(Renewal::Renewed {
            gone: record.gone.clone(),
        })
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let mut state = self.state();
        state.leases.remove(&lease.id);
        state.drop_orphans();
        self.changed.notify_waiters();
        Ok(())
    }

    async fn listen(&self, lease: &Lease) {
        loop {
            let changed = self.changed.notified();
            let news = |lease: &mut LeaseRecord| std::mem::take(&mut lease.has_news);
            if self.state().leases.get_mut(&lease.id).is_some_and(news) {
                return;
            }
            changed.await;
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let now = self.clock.now();
        let mut state = self.state();
        if !state.leases.contains_key(&ticket.lease) {
            return Ok(Standing::Gone);
        }
        let known = state.standing(&ticket.claim);
        if known != Standing::Gone {
            return Ok(known);
        }
        let queue = state
            .locks
            .get(&ticket.claim.name)
            .map_or(&[][..], Vec::as_slice);
        if let Some(other) = queue
            .first()
            .filter(|other| other.ticket.capacity != ticket.capacity)
        {
            let doing = format!("lock {}", ticket.claim.name);
            let why = rule::mismatch(ticket.capacity, other.ticket.capacity);
            return Err(Error::new(ErrorKind::Conflict, doing, why));
        }
        let order = state.last_order + u64::from(TOKENS_PER_GRANT);
        let mut claims = claims(queue);
        claims.push(rule::Claim {
            order,
            weight: ticket.weight,
        });
        let verdict = rule::verdict(ticket.capacity, &claims, order);
        if !ticket.waits && verdict != Some(Verdict::Held) {
            return Ok(Standing::Busy);
        }
        state.last_order = order;
        if rule::is_writer(ticket.capacity, ticket.weight) {
            state.marks.remove(&ticket.claim.name);
        }
        let record = Record {
            order,
            ticket: ticket.clone(),
            since: now,
        };
        let queue = state.locks.entry(ticket.claim.name.clone()).or_default();
        queue.push(record);
        Ok(state.standing(&ticket.claim))
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        let changed = self.changed.notified();
        let (standing, expiry) = {
            let state = self.state();
            (state.standing(&ticket.claim), state.next_expiry())
        };
        if !matches!(standing, Standing::Waiting { .. }) {
            return Ok(standing);
        }
        let again = self.clock.now() + LOOK_AGAIN;
        tokio::select! {
            biased;
            () = changed => {}
            () = self.clock.sleep_until(expiry.map_or(again, |expiry| expiry.min(again))) => {}
        }
        Ok(self.state().standing(&ticket.claim))
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        let mut state = self.state();
        if cause == Cause::Ours {
            state.settle(claim);
        }
        let is_it = |record: &Record| record.ticket.claim.id == claim.id;
        let Some(queue) = state.locks.get_mut(&claim.name) else {
            return Ok(Withdrawn::Absent);
        };
        let Some(at) = queue.iter().position(is_it) else {
            return Ok(Withdrawn::Absent);
        };
        let record = queue.remove(at);
        if queue.is_empty() {
            state.locks.remove(&claim.name);
        }
        if let Cause::Evicted { by, reason } = cause {
            state.evicted(&record, by, reason);
        }
        self.changed.notify_waiters();
        Ok(Withdrawn::Removed)
    }

    async fn write_memo(&self, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
        Ok(self.write(claim, memo, None))
    }

    async fn write_memo_for(&self, claim: &ClaimRef, memo: &Memo, keep: Duration) -> Result<Noted> {
        Ok(self.write(claim, memo, Some(keep)))
    }

    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        Ok(self.read(name))
    }

    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        Ok(self.queue(name).await?.holder_ids())
    }

    async fn stamp(&self, _lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        Ok(self.mark(name))
    }
}

impl State {
    /// Its session knows that the claim is gone.
    fn settle(&mut self, claim: &ClaimRef) {
        for lease in self.leases.values_mut() {
            lease.gone.retain(|gone| gone.id != claim.id);
        }
    }

    fn evicted(&mut self, record: &Record, by: &str, reason: &str) {
        let Some(lease) = self.leases.get_mut(&record.ticket.lease) else {
            return;
        };
        lease.has_news = true;
        lease.gone.push(GoneClaim {
            id: record.ticket.claim.id,
            lost: Lost::Evicted,
            note: Some(format!("by {by}: {reason}")),
        });
        let eviction = Eviction {
            owner: labelled(&lease.owner, &record.ticket),
            token: Token::new(record.order),
            by: by.to_owned(),
            reason: reason.to_owned(),
            at: wall_time(),
        };
        self.evictions
            .insert(0, (record.ticket.claim.name.clone(), eviction));
        self.evictions.truncate(EVICTIONS);
    }
}

fn labelled(owner: &Owner, ticket: &Ticket) -> Owner {
    match &ticket.label {
        Some(label) => Owner::seen(owner.host(), owner.pid(), label),
        None => owner.clone(),
    }
}
