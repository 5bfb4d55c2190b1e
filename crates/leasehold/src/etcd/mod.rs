//! The etcd engine: the store for locks that guard correctness.
//!
//! A claim is a key on the session's lease, and its place in the queue is the
//! revision that made it, which is its token too. A mutex has the keys of Go's
//! recipe, so `etcdctl lock` and programs in Go stand in the same queue; locks
//! that more than one may hold have a folder of their own. One transaction puts
//! a claim and says what is before it. A waiting claim watches the one key that
//! is in its way; when that goes, one transaction says whether the claim is
//! alive and first. Only that makes it held. Everything is guarded by the
//! ticket, which is in the key's value, so asking twice is asking once.
//! The layout and every step are in `docs/stores/etcd.md`.

mod bare;
mod claims;
mod config;
mod fault;
mod inspect;
mod keeping;
mod keys;
mod members;
mod memo;
mod mutex;
mod record;
mod renewal;
mod request;
mod shared;
mod stamp;
mod tail;
mod together;
mod want;
mod watching;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

pub use self::bare::BareEtcd;
use self::claims::{Claims, Mine, OpenLease};
pub(crate) use self::config::{EtcdConfig, OPTIONS, Refusal, SCHEMES};
use self::keeping::Keeping;
use self::members::Members;
use self::request::{delete, has_value, look, one};
use self::watching::{Watcher, Watching};
use self::wire::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse, TxnRequest,
    TxnResponse,
};
use crate::clock::boot_time;
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, LeaseId, Mark, Memo, Noted, Owner, Reading, Renewal, Standing,
    Ticket, Together, Watch, Withdrawn,
};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::name::Name;
use crate::promises::{Grade, Promises, Reach};
use crate::random::random_u64;

const TXN: &str = "/etcdserverpb.KV/Txn";
/// How late a waiting claim looks by itself if the stream is not proven.
const LOOK: Duration = Duration::from_millis(750);

/// Locks on an etcd cluster.
#[derive(Debug)]
pub(crate) struct EtcdEngine {
    members: Members,
    claims: Claims,
    watching: Watching,
    keeping: Keeping,
}

impl EtcdEngine {
    /// Connects and looks whether the server fits.
    pub(crate) async fn connect(config: &EtcdConfig) -> Result<Self> {
        let members = Members::new(config)?;
        inspect::must_fit(&members).await?;
        Ok(Self {
            members,
            claims: Claims::default(),
            watching: Watching::default(),
            keeping: Keeping::default(),
        })
    }

    async fn transact(
        &self,
        request: &TxnRequest,
        doing: impl Fn() -> String,
    ) -> Result<TxnResponse> {
        self.members.ask(TXN, request, doing).await
    }

    /// A request for a place. If one went unanswered before another member
    /// answered, it may still come: the claim stays in doubt.
    async fn ask_for(&self, mine: &Mine, request: &TxnRequest) -> Result<TxnResponse> {
        let asked = self
            .members
            .ask_noting(TXN, request, || doing(&mine.claim))
            .await?;
        if asked.is_repeated {
            mine.asked();
        }
        Ok(asked.answer)
    }

    async fn place(&self, mine: &Mine, open: &OpenLease, waits: bool) -> Result<Standing> {
        mutex::refuse_reserved(self, mine)?;
        mine.asked();
        let answer = match mine.capacity {
            1 => mutex::enqueue(self, mine, open, waits).await,
            _ => shared::enqueue(self, mine, open, waits).await,
        };
        if !matches!(&answer, Err(error) if error.effect() == Effect::Unknown) {
            mine.answered();
        }
        match answer {
            Err(error) if is_lease_gone(&error) => Ok(Standing::Gone),
            answer => answer,
        }
    }

    async fn look(&self, mine: &Mine, order: i64) -> Result<Standing> {
        match mine.capacity {
            1 => mutex::look(self, mine, order).await,
            _ => shared::look(self, mine, order).await,
        }
    }

    /// Whether the one claim that is watched is still there, and not a later one
    /// of the same session with the same key.
    async fn is_there(&self, watcher: &Watcher, mine: &Mine) -> Result<bool> {
        let Some((key, made)) = watcher.claim() else {
            return Ok(false);
        };
        let request = look([one(key)]);
        let answer = self.transact(&request, || doing(&mine.claim)).await?;
        let found = answer.into_reads().next().unwrap_or_default();
        Ok(found
            .kvs
            .first()
            .is_some_and(|kv| kv.create_revision == made))
    }

    /// Takes out a claim of ours. If a request for it may still be on its way,
    /// the inbox is written too, and so that request comes too late.
    async fn leave(&self, mine: &Mine) -> Result<Withdrawn> {
        mine.leave();
        let open = self.claims.lease(mine.lease);
        let call_back = open
            .as_ref()
            .filter(|_| mine.is_in_doubt())
            .map(|open| open.word());
        let request = TxnRequest {
            compare: vec![has_value(&mine.key, &mine.value)],
            success: [Some(delete(&mine.key)), call_back.clone()]
                .into_iter()
                .flatten()
                .collect(),
            failure: call_back.clone().into_iter().collect(),
        };
        let doing = || format!("withdraw {}", mine.claim.name);
        let answered = self.members.ask_noting(TXN, &request, doing).await;
        let answered = match answered {
            // Without its lease there is no claim.
            Err(error) if is_lease_gone(&error) => return Ok(Withdrawn::Absent),
            answered => answered?,
        };
        let answer: TxnResponse = answered.answer;
        if let Some(open) = open.filter(|_| call_back.is_some()) {
            open.learn_epoch(answer.revision());
        }
        // What the first of two requests took out, the second does not find.
        let is_removed = answer.succeeded || answered.is_repeated;
        Ok(if is_removed {
            Withdrawn::Removed
        } else {
            Withdrawn::Absent
        })
    }
}

#[async_trait]
impl Engine for EtcdEngine {
    fn promises(&self) -> Promises {
        Promises {
            fair: true,
            rwlock: true,
            semaphore: true,
            fence: Grade::Ordered,
            durable: true,
            memo: true,
            retention: true,
            stamp: true,
            holders: true,
            ..Promises::least(Reach::Network)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let doing = || "open a session".to_owned();
        // Chosen here, so that asking twice is asking once.
        let number = random_number();
        let request = LeaseGrantRequest {
            ttl: whole_seconds(ttl),
            id: number,
        };
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let granted = self.members.ask(path, &request, doing).await;
        let (ttl, revision) = match granted {
            Ok(LeaseGrantResponse { ttl, header, .. }) => {
                (seconds(ttl), header.map_or(0, |header| header.revision))
            }
            // The answer to the first of two requests was lost.
            Err(error) if error.why().contains("lease already exists") => {
                renewal::granted(self, number).await?
            }
            Err(error) => return Err(error),
        };
        let lease = Lease {
            id: LeaseId(number.unsigned_abs().into()),
            ttl,
        };
        let inbox = keys::inbox(number);
        let news = self.watching.changes(&inbox, revision + 1);
        self.claims.add_lease(OpenLease::new(lease, owner, news));
        self.watching.begin(&self.members).await;
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        renewal::renew(self, lease).await
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let request = LeaseRevokeRequest {
            id: keys::number(lease.id),
        };
        let path = "/etcdserverpb.Lease/LeaseRevoke";
        let doing = || "close the session".to_owned();
        match self.members.ask(path, &request, doing).await {
            Ok(LeaseRevokeResponse {}) => {}
            Err(error) if is_lease_gone(&error) => {}
            Err(error) => return Err(error),
        }
        self.claims.forget_lease(lease.id);
        Ok(())
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.claims.lease(lease.id) else {
            return std::future::pending().await;
        };
        tokio::select! {
            biased;
            () = open.news.rung() => {}
            () = self.watching.listen(&self.members) => {}
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let Some(open) = self.claims.lease(ticket.lease) else {
            return Ok(Standing::Gone);
        };
        let mine = self.claims.admit(ticket, &open.owner);
        let standing = self.place(&mine, &open, ticket.waits).await?;
        if standing == Standing::Busy {
            // Nobody withdraws what was not given, so nothing may be left that
            // could still come.
            if mine.is_in_doubt() {
                self.leave(&mine).await?;
            }
            self.claims.forget(ticket.claim.id);
        }
        Ok(standing)
    }

    async fn enqueue_all(&self, tickets: &[Ticket]) -> Result<Together> {
        together::enqueue_all(self, tickets).await
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        let Some(mine) = self.claims.claim(ticket.claim.id) else {
            return Ok(Standing::Gone);
        };
        let (order, watcher) = match (mine.order(), mine.watcher()) {
            (Some(order), Some(watcher)) => (order, watcher),
            (Some(order), None) => return self.look(&mine, order).await,
            (None, _) => return Ok(Standing::Gone),
        };
        loop {
            let since = boot_time();
            let is_rung = tokio::select! {
                biased;
                () = watcher.rung() => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            if is_rung && watcher.take_doubt() && self.is_there(&watcher, &mine).await? {
                continue;
            }
            if is_rung || !self.watching.is_proven(since) {
                return self.look(&mine, order).await;
            }
        }
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        match cause {
            Cause::Ours => {
                let Some(mine) = self.claims.claim(claim.id) else {
                    return inspect::take_out(self, claim, None).await;
                };
                // It is known until it is surely out, so that closing does not
                // overlook it.
                let found = self.leave(&mine).await?;
                self.claims.forget(claim.id);
                Ok(found)
            }
            Cause::Evicted { by, reason } => {
                inspect::take_out(self, claim, Some((by, reason))).await
            }
        }
    }

    async fn write_memo(&self, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
        memo::write(self, claim, memo, None).await
    }

    async fn write_memo_for(&self, claim: &ClaimRef, memo: &Memo, keep: Duration) -> Result<Noted> {
        memo::write(self, claim, memo, Some(keep)).await
    }

    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        memo::read_memo(self, name).await
    }

    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        inspect::holders(self, name).await
    }

    async fn stamp(&self, lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        stamp::stamp(self, lease, name).await
    }
}

fn doing(claim: &ClaimRef) -> String {
    format!("lock {}", claim.name)
}

fn conflict(engine: &EtcdEngine, mine: &Mine, why: String) -> Error {
    Error::new(ErrorKind::Conflict, doing(&mine.claim), why).on(&*engine.members.label)
}

/// Somebody always came between.
fn lively(engine: &EtcdEngine, mine: &Mine) -> Error {
    let why = "the lock's queue changes faster than it can be read";
    Error::new(ErrorKind::Unavailable, doing(&mine.claim), why).on(&*engine.members.label)
}

/// The server did a part of what it was asked, or something is between us that
/// leaves parts out.
fn garbled(engine: &EtcdEngine, mine: &Mine) -> Error {
    let why = "the server's answer is not whole";
    Error::new(ErrorKind::Unavailable, doing(&mine.claim), why)
        .on(&*engine.members.label)
        .effect_is(Effect::Unknown)
}

fn is_lease_gone(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let status = source.and_then(|source| source.downcast_ref::<tonic::Status>());
    status.is_some_and(fault::is_lease_gone)
}

/// A number for a lease: not zero, which means none.
fn random_number() -> i64 {
    let number = random_u64() >> 1;
    i64::try_from(number.max(1)).unwrap_or(i64::MAX)
}

/// etcd counts in whole seconds.
fn whole_seconds(ttl: Duration) -> i64 {
    let more = u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(ttl.as_secs() + more).unwrap_or(i64::MAX)
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(number.unsigned_abs())
}

/// What is behind these locks is whole after any panic: no code that could
/// panic runs while one is taken.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
