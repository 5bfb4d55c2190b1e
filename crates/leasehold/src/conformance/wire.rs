//! A wire between a session and its engine, which can be cut.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::engine::{
    Cause, ClaimRef, Engine, Finding, Inspect, Lease, Mark, Memo, Noted, Owner, Promises, Queue,
    Reading, Renewal, Standing, Ticket, Together, Watch, Withdrawn,
};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::name::Name;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// `Engine::open`
    Open,
    /// `Engine::renew`
    Renew,
    /// `Engine::close`
    Close,
    /// `Engine::listen`
    Listen,
    /// `Engine::enqueue`
    Enqueue,
    /// `Engine::wait`
    Wait,
    /// `Engine::withdraw`
    Withdraw,
    /// `Engine::write_memo`, `Engine::write_memo_for` and `Engine::read_memo`
    Memo,
    /// `Engine::stamp`
    Stamp,
    /// `Engine::holders`
    Holders,
}

impl Call {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Open,
        Self::Renew,
        Self::Close,
        Self::Listen,
        Self::Enqueue,
        Self::Wait,
        Self::Withdraw,
        Self::Memo,
        Self::Stamp,
        Self::Holders,
    ];
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not reach the store, and nobody says so.
    Hangs,
    /// It does not reach the store, and the session hears that.
    Refused,
    /// The store does it, but the answer is lost.
    LosesReply,
    /// The store gets it twice.
    Repeated,
}

/// An engine behind a wire which can be cut, by kind of request.
#[derive(Debug)]
pub struct Wire {
    engine: Arc<dyn Engine>,
    faults: Mutex<BTreeMap<Call, Fault>>,
    sent: Mutex<BTreeMap<Call, usize>>,
}

impl Wire {
    /// A wire that works.
    pub fn new(engine: Arc<dyn Engine>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            faults: Mutex::default(),
            sent: Mutex::default(),
        })
    }

    /// From now on all requests of these kinds fail like this.
    pub fn cut(&self, calls: impl IntoIterator<Item = Call>, fault: Fault) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.extend(calls.into_iter().map(|call| (call, fault)));
    }

    /// From now on everything works again.
    pub fn mend(&self) {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// How many requests of this kind there were.
    pub fn sent(&self, call: Call) -> usize {
        let sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.get(&call).copied().unwrap_or(0)
    }

    /// How many requests there were.
    pub fn sent_in_all(&self) -> usize {
        Call::ALL.into_iter().map(|call| self.sent(call)).sum()
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        *sent.entry(call).or_default() += 1;
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.get(&call).copied()
    }

    async fn carry<T, F>(&self, call: Call, request: impl Fn() -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        let broken = |effect| {
            let doing = format!("{call:?}");
            let error = Error::new(ErrorKind::Unavailable, doing, "the wire is cut");
            Err(error.effect_is(effect))
        };
        match self.fault(call) {
            None => request().await,
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::Refused) => broken(Effect::None),
            Some(Fault::LosesReply) => {
                request().await?;
                broken(Effect::Unknown)
            }
            Some(Fault::Repeated) => {
                request().await?;
                request().await
            }
        }
    }
}

#[async_trait]
impl Engine for Wire {
    fn promises(&self) -> Promises {
        self.engine.promises()
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        self.carry(Call::Open, || self.engine.open(owner, ttl))
            .await
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        self.carry(Call::Renew, || self.engine.renew(lease)).await
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        self.carry(Call::Close, || self.engine.close(lease)).await
    }

    async fn listen(&self, lease: &Lease) {
        match self.fault(Call::Listen) {
            None => self.engine.listen(lease).await,
            Some(_) => std::future::pending().await,
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        self.carry(Call::Enqueue, || self.engine.enqueue(ticket))
            .await
    }

    async fn enqueue_all(&self, tickets: &[Ticket]) -> Result<Together> {
        self.carry(Call::Enqueue, || self.engine.enqueue_all(tickets))
            .await
    }

    async fn wait(&self, ticket: &Ticket, watch: Watch) -> Result<Standing> {
        self.carry(Call::Wait, || self.engine.wait(ticket, watch))
            .await
    }

    async fn withdraw(&self, claim: &ClaimRef, cause: Cause<'_>) -> Result<Withdrawn> {
        self.carry(Call::Withdraw, || self.engine.withdraw(claim, cause))
            .await
    }

    async fn write_memo(&self, claim: &ClaimRef, memo: &Memo) -> Result<Noted> {
        self.carry(Call::Memo, || self.engine.write_memo(claim, memo))
            .await
    }

    async fn write_memo_for(&self, claim: &ClaimRef, memo: &Memo, keep: Duration) -> Result<Noted> {
        let request = || self.engine.write_memo_for(claim, memo, keep);
        self.carry(Call::Memo, request).await
    }

    async fn read_memo(&self, name: &Name) -> Result<Reading> {
        self.carry(Call::Memo, || self.engine.read_memo(name)).await
    }

    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        self.carry(Call::Holders, || self.engine.holders(name))
            .await
    }

    async fn stamp(&self, lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        self.carry(Call::Stamp, || self.engine.stamp(lease, name))
            .await
    }
}

#[async_trait]
impl Inspect for Wire {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        self.engine.queue(name).await
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        self.engine.names(prefix).await
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        self.engine.examine().await
    }
}
