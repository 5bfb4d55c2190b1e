//! What an engine is: one store's native recipe for a queue of claims. It knows
//! nothing of guards, watchdogs or timeouts, and it does not spawn.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::guard::Lost;
use crate::name::Name;
pub use crate::owner::Owner;
pub use crate::promises::{Freed, Grade, Promises, Reach};
pub use crate::rule::Watch;

/// The part of a store that locks.
///
/// Every call may be repeated: asking twice with the same ticket is asking
/// once. Every future may be dropped at any await point; what the store then
/// still has is taken back by `withdraw`.
#[async_trait]
pub trait Engine: Inspect {
    /// What this engine guarantees.
    fn promises(&self) -> Promises;

    /// Starts a lease; its claims live as long as it does.
    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease>;

    /// Keeps the lease and all its claims for another ttl. Never brings back
    /// what the store has given up.
    async fn renew(&self, lease: &Lease) -> Result<Renewal>;

    /// Ends the lease and drops whatever claims it still has, also those whose
    /// withdrawal was asked for and has not been answered.
    async fn close(&self, lease: &Lease) -> Result<()>;

    /// Takes in what the store tells this session and wakes the waits it is
    /// for. Returns when held claims should be looked at before the next
    /// renewal is due, once for each piece of news. The session calls it again
    /// and again, in one place.
    async fn listen(&self, lease: &Lease);

    /// Puts the claim at the end of its queue. One round trip if the lock is
    /// free. A ticket that does not wait and is not granted writes nothing. A
    /// request that nobody listens to any more reaches the store within the
    /// session's ttl or not at all.
    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing>;

    /// Grants all of these claims, of different locks, in one step, or none of
    /// them. Their tickets do not wait.
    async fn enqueue_all(&self, _tickets: &[Ticket]) -> Result<Together> {
        Ok(Together::Separately)
    }

    /// Waits until the claim's standing may have changed and says what it is.
    /// May wake early, never more than a second late. Never puts the claim into
    /// the queue; where there is none, says when to ask again.
    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing>;

    /// Takes the claim out of its queue: release, cancel and evict alike.
    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn>;

    /// Writes the lock's memo if the claim is still there and holds, by the grant
    /// that the memo's token is from, in one step. Of two writes under one token
    /// the one with the smaller edition never replaces the other. No bytes remove
    /// the memo, but not its edition.
    async fn write_memo(&self, claim: &ClaimRef, _memo: &Memo) -> Result<Noted> {
        let doing = format!("write the memo of {}", claim.name);
        Err(crate::memo::unsupported(doing))
    }

    /// The same, but the store keeps it for at least this long and not much
    /// longer, by its own clock, unless it is written again. Then nothing is left
    /// of it, not even its edition. Needs the promise `retention`.
    async fn write_memo_for(
        &self,
        claim: &ClaimRef,
        _memo: &Memo,
        _keep: Duration,
    ) -> Result<Noted> {
        let doing = format!("write the memo of {}", claim.name);
        Err(crate::memo::kept_for_good(doing))
    }

    /// The lock's memo as it is now, not as it was before a write that was
    /// answered.
    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        Err(crate::memo::unsupported(format!("read the memo of {name}")))
    }

    /// Names the time since the lock last had a writer. Two calls answer the same
    /// only if no writer was granted the lock between them, nor had a claim on it at
    /// the first. `None` if one has a claim, dead or not. Whatever may have forgotten
    /// a writer, such as a failover, changes the answer. The mark lives no longer
    /// than the lease where it is something in the store.
    async fn stamp(&self, _lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        Err(crate::stamp::unsupported(format!(
            "read {name} without a lock"
        )))
    }

    /// The holder ids of the claims that hold the lock now, from a server that takes
    /// itself for the one to ask; where its commits wait for another server, so does
    /// this, and so do `stamp` and `read_memo`. Without owners and times, so that many
    /// may ask often. Needs the promise `holders`.
    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        let why = "this store does not tell who holds a lock so that one can rely on it";
        let doing = format!("see who holds {name}");
        Err(Error::new(ErrorKind::Unsupported, doing, why))
    }

    /// Itself, where there is more to it than an engine.
    #[doc(hidden)]
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }

    /// Something that keeps the store from taking this lease's holder for dead
    /// while a copy of it is open, where the store can tell.
    #[cfg(unix)]
    fn lifeline(&self, _lease: &Lease) -> Option<std::os::fd::OwnedFd> {
        None
    }
}

/// The part of a store that people look at.
#[async_trait]
pub trait Inspect: fmt::Debug + Send + Sync + 'static {
    /// The lock's queue, holders first, and what was broken of late.
    async fn queue(&self, name: &Name) -> Result<Queue>;

    /// The names that have live claims and start with the prefix, sorted.
    async fn names(&self, prefix: &str) -> Result<Vec<Name>>;

    /// Whether the store is fit for locks, and what to do where it is not.
    async fn examine(&self) -> Result<Vec<Finding>>;
}

/// A claim's name, made by us before the first byte is sent, so that asking
/// twice is asking once and a lost reply is no riddle.
#[derive(Debug, Clone)]
pub struct Ticket {
    /// Which claim of which lock.
    pub claim: ClaimRef,
    /// The lease the claim lives on.
    pub lease: LeaseId,
    /// The random part of the claim's fence.
    pub holder: u64,
    /// Units the lock has.
    pub capacity: u32,
    /// Units the claim takes.
    pub weight: u32,
    /// Whether the claim stays in the queue if it is not granted at once.
    pub waits: bool,
    /// A label for people, if it differs from the session's.
    pub label: Option<Arc<str>>,
}

/// Points at one claim in one lock's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRef {
    /// The lock.
    pub name: Name,
    /// The claim.
    pub id: TicketId,
}

/// 128 random bits that prove the ownership of a claim. Shown only in part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(pub u128);

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}..", self.0 >> 96)
    }
}

/// Names a lease in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u128);

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}..", self.0 >> 96)
    }
}

/// The store's promise to keep our claims for a ttl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Its name in the store.
    pub id: LeaseId,
    /// How long the store keeps it, which may differ from what was asked.
    pub ttl: Duration,
}

/// Where a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The claim is granted, with this token. The session may use as many
    /// tokens from here on as the engine promises per grant.
    Held {
        /// The first token of the grant.
        token: Token,
    },
    /// The claim is in the queue.
    Waiting {
        /// What keeps it there.
        watch: Watch,
        /// How many claims are before it, holders included.
        ahead: u32,
    },
    /// The store keeps no queue, and the lock may be free now: the claim is to
    /// be asked for again. Only from `wait`.
    MayBeFree,
    /// A claim that does not wait was not granted. Nothing was written.
    Busy,
    /// The store does not have the claim, or its lease, any more.
    Gone,
}

/// What became of several claims that were asked for in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Together {
    /// All are granted, with these tokens.
    Held(Vec<Token>),
    /// One of the locks is not free. Nothing was written.
    Busy,
    /// The store cannot do this in one step. Nothing was written.
    Separately,
}

/// The store's answer to a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// The lease goes on; these claims are no longer part of it.
    Renewed {
        /// Claims that the store no longer has, and why. A reply may be lost, so
        /// a claim is reported until the session has withdrawn it.
        gone: Vec<GoneClaim>,
    },
    /// It is not known that the lease goes on; these claims are gone in any case.
    NotRenewed {
        /// As for `Renewed`.
        gone: Vec<GoneClaim>,
    },
    /// The store does not know the lease: all its claims are gone.
    LeaseGone,
}

/// A claim that the store took away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoneClaim {
    /// Which one.
    pub id: TicketId,
    /// `Gone` or `Evicted`.
    pub lost: Lost,
    /// Who broke it and why, if it was evicted.
    pub note: Option<String>,
}

/// Why a claim is taken out of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause<'a> {
    /// It is ours and we are done with it.
    Ours,
    /// Somebody breaks the lock; recorded, and told to the holder.
    Evicted {
        /// Who.
        by: &'a str,
        /// Why.
        reason: &'a str,
    },
}

/// What a withdrawal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawn {
    /// The claim was there and is not any more.
    Removed,
    /// The claim was not there.
    Absent,
}

/// A few bytes beside a lock, which only its holder can write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memo {
    /// The token of the hold that wrote it.
    pub token: Token,
    /// The how-manieth write of that hold it was, from 1.
    pub edition: u64,
    /// What was written.
    pub bytes: Vec<u8>,
}

/// What became of a memo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// It is written, or a later edition of the same hold is.
    Written,
    /// The claim is not there, does not hold, or holds by another grant. Nothing
    /// was written.
    NotHeld,
}

/// What is known of a lock's memo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The memo, if there is one.
    pub memo: Option<Memo>,
    /// What the store's own clock showed, since 1970, if it has one.
    pub time: Option<Duration>,
}

/// Names a time without writers. Good for comparing only, and within one session,
/// unless the engine promises words (`stamp_word`): then it is letters, digits,
/// dashes and spaces, and as good in any other session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(pub String);

/// A lock as people see it.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// Units the lock has; 0 if it has no claims.
    pub capacity: u32,
    /// Claims in order of arrival, holders first.
    pub claims: Vec<Claimant>,
    /// What was broken of late, newest first.
    pub evictions: Vec<Eviction>,
}

impl Queue {
    /// The claims that hold the lock.
    pub fn holders(&self) -> impl Iterator<Item = &Claimant> {
        self.claims.iter().filter(|claimant| claimant.is_holder)
    }

    /// The ids of the holders, for an engine to answer with.
    pub(crate) fn holder_ids(&self) -> Vec<u64> {
        self.holders().map(|holder| holder.holder).collect()
    }
}

/// One claim as people see it.
#[derive(Debug, Clone)]
pub struct Claimant {
    /// Which claim; needed to evict it.
    pub id: TicketId,
    /// Who made it.
    pub owner: Owner,
    /// The session it belongs to, where the store tells: claims of one session
    /// have the same.
    pub session: Option<LeaseId>,
    /// Whether it holds or waits.
    pub is_holder: bool,
    /// Units it takes.
    pub weight: u32,
    /// Its token, if it holds.
    pub token: Option<Token>,
    /// The random part of its fence.
    pub holder: u64,
    /// How long ago it was made.
    pub age: Duration,
    /// How long its lease still runs unless it is renewed.
    pub time_left: Duration,
}

/// A lock that was broken.
#[derive(Debug, Clone)]
pub struct Eviction {
    /// Whose claim it was.
    pub owner: Owner,
    /// The token it held.
    pub token: Token,
    /// Who broke it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When, in wall-clock time since 1970.
    pub at: Duration,
}

/// Something to know about a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub what: String,
    /// What to do about it; empty if nothing.
    pub remedy: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Works, but a promise is weaker than it could be.
    Warning,
    /// Not fit for locks.
    Unfit,
}
