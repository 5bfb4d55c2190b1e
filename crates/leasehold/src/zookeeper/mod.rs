//! The ZooKeeper engine: for those who run ZooKeeper already, and for locks
//! that guard correctness.
//!
//! A lease is a session, a claim an ephemeral node with a number that the server
//! gives it, and its token the transaction that made it. Nodes are called as
//! Curator calls them, or kazoo, so that programs in Java, Go and Python stand
//! in the same queue. A request for a place and a look at the queue go out one
//! behind the other, so a free lock costs one round trip. A waiting claim has
//! the server watch the one node that is in its way; when that goes, one round
//! trip says whether the claim is alive and first. Only that makes it held. The
//! ticket is in the node's name, so asking twice is asking once.
//! The layout and every step are in `docs/stores/zookeeper.md`.

mod bare;
mod claims;
mod config;
mod dialect;
mod events;
mod fault;
mod holders;
mod inspect;
mod keeping;
mod link;
mod meeting;
mod memo;
mod nodes;
mod order;
mod queue;
mod record;
mod renewal;
mod session;
mod stamp;
mod standing;
mod sweep;
mod wire;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

pub use self::bare::BareZookeeper;
use self::claims::{Claims, Mine, OpenLease};
pub(crate) use self::config::{OPTIONS, Refusal as OptionRefusal, SCHEMES, ZookeeperConfig};
use self::dialect::Layout;
use self::fault::Refusal;
use self::link::Link;
use self::nodes::Paths;
use self::session::Session;
use self::wire::{Mode, Request};
use crate::clock::boot_time;
use crate::engine::{
    Cause, ClaimRef, Engine, Lease, LeaseId, Mark, Memo, Noted, Owner, Reading, Renewal, Standing,
    Ticket, Watch, Withdrawn,
};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::promises::{Grade, Promises, Reach};

/// How late a waiting claim looks by itself if the connection is not proven.
const LOOK: Duration = Duration::from_millis(750);
/// How often the server hears of us, at least: while somebody waits, and else.
const TICK: Duration = Duration::from_millis(500);
const IDLE_TICK: Duration = Duration::from_secs(1);
/// How long to wait before another attempt to reach a server.
const RETRY: Duration = Duration::from_millis(50);

/// Locks on a ZooKeeper ensemble.
#[derive(Debug)]
pub(crate) struct ZookeeperEngine {
    config: Arc<ZookeeperConfig>,
    label: String,
    paths: Paths,
    facts: Facts,
    claims: Claims,
    /// For looking at locks without a lease.
    looking: Mutex<Option<Arc<Session>>>,
    /// The claims of locks whose holders were asked for.
    met: Mutex<HashMap<Name, holders::Known>>,
    leader_time: Mutex<keeping::LeaderTime>,
}

/// What the servers said when we met.
#[derive(Debug, Clone, Copy)]
struct Facts {
    /// There is one server, which is its own leader.
    is_alone: bool,
    /// The shortest timeout that a session can have.
    shortest: Duration,
    /// How often followers tell the leader of their sessions, at most.
    flush: Duration,
}

impl ZookeeperEngine {
    /// Connects and looks whether the servers fit.
    pub(crate) async fn connect(config: &ZookeeperConfig) -> Result<Self> {
        let (config, label) = (Arc::new(config.clone()), config.label());
        let facts = meeting::meet(&config).await;
        Ok(Self {
            paths: Paths::below(&config.chroot),
            facts: facts.map_err(|why| meeting::first_fault(why, &config, &label))?,
            config,
            label,
            claims: Claims::default(),
            looking: Mutex::default(),
            met: Mutex::default(),
            leader_time: Mutex::default(),
        })
    }

    /// Makes a node and all above it, in one go from the top.
    async fn make_all(&self, session: &Session, path: &str) -> Result<(), Refusal> {
        let mut mode = match self.config.layout {
            Layout::Curator => Mode::Container,
            Layout::Kazoo => Mode::Persistent,
        };
        loop {
            let create = |path: String| Request::Create {
                path,
                data: Vec::new(),
                mode,
                is_private: self.config.user.is_some(),
            };
            let requests = self.paths.above(path).into_iter().map(create).collect();
            let answered = session.ask(requests).await?;
            // What is there already may be below a node that is closed to us;
            // the server says that first.
            let is_there =
                |answer: &Result<_, Refusal>| matches!(answer, Ok(_) | Err(Refusal::NodeExists));
            if answered.last().is_some_and(is_there) {
                return Ok(());
            }
            let refused = answered.into_iter().filter_map(Result::err);
            let mut refused = refused.filter(|why| *why != Refusal::NodeExists);
            match refused.next() {
                None => return Ok(()),
                Some(Refusal::Unknown) if mode == Mode::Container => mode = Mode::Persistent,
                Some(why) => return Err(why),
            }
        }
    }

    /// Lets the server hear of us, and has it watch what we hold.
    async fn tick(&self, open: &OpenLease, link: &Link) {
        let patience = open.session.patience;
        let is_late = |since| boot_time().since(since) > patience;
        if link.owes_since().is_some_and(is_late) {
            return link.end(Refusal::Broken("the server does not answer".into()));
        }
        let claims = self.claims.of(open.lease.id);
        let pause = match claims.iter().all(|mine| mine.is_held()) {
            true => IDLE_TICK,
            false => TICK,
        };
        open.ticked(pause.min(open.session.timeout / 12));
        // What becomes of it the connection notes.
        let _ = link.send(vec![Request::Ping]);
        let paths = claims
            .iter()
            .filter_map(|mine| mine.to_be_watched(link.number));
        let watch = |path: String| {
            open.session.events.watch(&path, &open.news);
            Request::Exists { path, watch: true }
        };
        let requests: Vec<_> = paths.map(watch).collect();
        if requests.is_empty() {
            return;
        }
        let answered = open.session.ask_over(link, requests).await;
        let is_gone = |answer: &Result<_, Refusal>| *answer == Err(Refusal::NoNode);
        if answered.is_ok_and(|answered| answered.iter().any(is_gone)) {
            open.news.notify_one();
        }
    }
}

#[async_trait]
impl Engine for ZookeeperEngine {
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
            stamp_word: true,
            holders: true,
            ..Promises::least(Reach::Network)
        }
    }

    async fn open(&self, owner: &Owner, ttl: Duration) -> Result<Lease> {
        // A shorter one would be nearly all lag.
        let ttl = match self.facts.is_alone {
            true => ttl,
            false => ttl.max(self.facts.flush * 6),
        };
        let session = Session::open(&self.config, ttl).await;
        let session = session.map_err(|why| why.fault("open a session", &self.label))?;
        let timeout = session.timeout;
        let lag = match self.facts.is_alone {
            true => Duration::ZERO,
            false => renewal::lag(self.facts.flush, timeout),
        };
        let lease = Lease {
            id: lease_id(session.id),
            ttl: timeout - lag,
        };
        self.claims
            .add_lease(OpenLease::new(lease, session, owner, lag));
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal> {
        renewal::renew(self, lease).await
    }

    async fn close(&self, lease: &Lease) -> Result<()> {
        let Some(open) = self.claims.lease(lease.id) else {
            return Ok(());
        };
        open.closes();
        match open.session.ask_one(Request::Close).await {
            Ok(_) | Err(Refusal::SessionOver) => {}
            Err(why) => return Err(why.fault("close the session", &self.label)),
        }
        open.session.end();
        self.claims.forget_lease(lease.id);
        Ok(())
    }

    async fn listen(&self, lease: &Lease) {
        let Some(open) = self.claims.lease(lease.id) else {
            return std::future::pending().await;
        };
        loop {
            let link = match open.session.link().await {
                Ok(link) => link,
                Err(Refusal::SessionOver) if open.ends_now() => return,
                Err(Refusal::SessionOver) => return std::future::pending().await,
                Err(_) => {
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
            // Whoever has changed servers looks at everything.
            if open.has_moved(link.number) {
                return;
            }
            tokio::select! {
                biased;
                () = open.news.notified() => return,
                () = tokio::time::sleep(open.until_tick()) => {}
                () = link.listen() => continue,
            }
            self.tick(&open, &link).await;
        }
    }

    async fn enqueue(&self, ticket: &Ticket) -> Result<Standing> {
        let Some(open) = self.claims.lease(ticket.lease) else {
            return Ok(Standing::Gone);
        };
        let name = &ticket.claim.name;
        if let Some(why) = self.paths.refusal(name) {
            let error = Error::new(ErrorKind::Usage, doing(&ticket.claim), why);
            return Err(error.on(&*self.label));
        }
        let prefix = self.config.layout.prefix(ticket);
        let parent = self.paths.lock(name);
        let mine = self.claims.admit(ticket, &open, parent, &prefix);
        let placed = queue::enqueue(self, &mine, ticket.waits).await;
        match placed {
            // Nobody withdraws what was not given.
            Ok(Standing::Busy) => self.claims.forget(ticket.claim.id),
            Err(error) if is_session_over(&error) => return Ok(Standing::Gone),
            _ => {}
        }
        placed
    }

    async fn wait(&self, ticket: &Ticket, _watch: Watch) -> Result<Standing> {
        let Some(mine) = self.claims.claim(ticket.claim.id) else {
            return Ok(Standing::Gone);
        };
        if mine.node().is_none() {
            return Ok(Standing::Gone);
        }
        while mine.is_waiting_for_something() {
            let since = boot_time();
            let is_rung = tokio::select! {
                biased;
                () = mine.bell.notified() => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            if is_rung || mine.waits_blindly() || !mine.session().current().is_proven(since) {
                break;
            }
        }
        match queue::look(self, &mine, true).await {
            Err(error) if is_session_over(&error) => Ok(Standing::Gone),
            standing => standing,
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
                let found = queue::leave(self, &mine).await?;
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
        memo::read(self, name).await
    }

    async fn holders(&self, name: &Name) -> Result<Vec<u64>> {
        holders::holders(self, name).await
    }

    async fn stamp(&self, _lease: &Lease, name: &Name) -> Result<Option<Mark>> {
        stamp::stamp(self, name).await
    }
}

fn doing(claim: &ClaimRef) -> String {
    format!("lock {}", claim.name)
}

fn conflict(engine: &ZookeeperEngine, mine: &Mine, why: String) -> Error {
    Error::new(ErrorKind::Conflict, doing(&mine.claim), why).on(&*engine.label)
}

fn is_session_over(error: &Error) -> bool {
    fault::refusal(error) == Some(&Refusal::SessionOver)
}

fn lease_id(session: i64) -> LeaseId {
    LeaseId(u64::from_be_bytes(session.to_be_bytes()).into())
}

/// What is behind these locks is whole after any panic: no code that could
/// panic runs while one is taken.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
