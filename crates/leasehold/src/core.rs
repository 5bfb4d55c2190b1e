//! What the parts of a session share: the engine, the clock, the current lease
//! and the holds that live on it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::clock::{Clock, Moment};
use crate::engine::{Engine, GoneClaim, Lease, Promises, TicketId};
use crate::error::{Error, ErrorKind};
use crate::guard::Lost;
use crate::hold::Hold;
use crate::lease::LeaseClock;
use crate::local::Local;
use crate::owner::Owner;
use crate::phase::{Phase, Phases};
use crate::random::Ids;
use crate::reaper::Errand;
use crate::reentrant::Entries;

/// How a session behaves; from the URL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// How long the store keeps our claims without a renewal.
    pub(crate) ttl: Duration,
    /// How long before the store we stop.
    pub(crate) margin: Duration,
    /// How long a wait without a deadline puts up with a store that does not
    /// answer.
    pub(crate) patience: Duration,
}

/// The shared state of a session. The session's two tasks and everything that
/// may still have to be cleaned up hold it; what keeps the session itself open
/// is [`Anchor`].
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) promises: Promises,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) owner: Owner,
    /// `sqlite`, `memory`: the label of our metrics.
    pub(crate) scheme: &'static str,
    pub(crate) phases: Phases,
    pub(crate) local: Local,
    pub(crate) ids: Ids,
    pub(crate) entries: Entries,
    pub(crate) errands: mpsc::UnboundedSender<Errand>,
    /// Rung when the watchdog should look around before its timer rings.
    pub(crate) look: Notify,
    /// Rung when the lease should be verified now.
    pub(crate) doubt: Notify,
    holds: Mutex<Holds>,
}

#[derive(Debug, Default)]
struct Holds {
    by_claim: BTreeMap<TicketId, Weak<Hold>>,
    /// Claims that the store took away before their hold was here: the news
    /// overtook the grant, or the claim is being handed over.
    gone: BTreeMap<TicketId, GoneClaim>,
}

/// The time of one lease, as holds and waits see it.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) lease: Lease,
    deadline: AtomicU64,
    renewals: AtomicU32,
}

impl Term {
    pub(crate) fn new(lease: Lease, clock: &LeaseClock) -> Arc<Self> {
        Arc::new(Self {
            lease,
            deadline: AtomicU64::new(clock.deadline().nanos()),
            renewals: AtomicU32::new(0),
        })
    }

    /// From here on nothing of this lease counts as held.
    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    pub(crate) fn is_over(&self, now: Moment) -> bool {
        now >= self.deadline()
    }

    pub(crate) fn renewals(&self) -> u32 {
        self.renewals.load(Ordering::Acquire)
    }

    pub(crate) fn renewed(&self, clock: &LeaseClock) {
        self.deadline
            .fetch_max(clock.deadline().nanos(), Ordering::AcqRel);
        self.renewals.fetch_add(1, Ordering::AcqRel);
    }

    /// The store no longer has the lease, whatever the clock says.
    pub(crate) fn end(&self) {
        self.deadline.store(0, Ordering::Release);
    }
}

impl Core {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        scheme: &'static str,
        clock: Clock,
        settings: Settings,
        owner: Owner,
        term: Arc<Term>,
        errands: mpsc::UnboundedSender<Errand>,
    ) -> Arc<Self> {
        Arc::new(Self {
            promises: engine.promises(),
            engine,
            clock,
            settings,
            owner,
            scheme,
            phases: Phases::new(Phase::Open(term)),
            local: Local::default(),
            ids: Ids::new(),
            entries: Entries::default(),
            errands,
            look: Notify::new(),
            doubt: Notify::new(),
            holds: Mutex::default(),
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.phases.current(), Phase::Closed)
    }

    /// Resolves when the session is closed.
    pub(crate) async fn closed(&self) {
        let is_closed = |phase: &Phase| matches!(phase, Phase::Closed).then_some(());
        self.phases.until(is_closed).await;
    }

    pub(crate) fn register(&self, id: TicketId, hold: &Arc<Hold>) {
        let mut holds = self.holds();
        holds.by_claim.insert(id, Arc::downgrade(hold));
        let gone = holds.gone.get(&id).cloned();
        drop(holds);
        if let Some(gone) = gone {
            hold.lose(gone.lost, gone.note);
        }
    }

    /// Forgets the hold on this claim, unless the claim has been handed on.
    pub(crate) fn deregister(&self, id: TicketId, hold: *const Hold) {
        let by_claim = &mut self.holds().by_claim;
        if by_claim
            .get(&id)
            .is_some_and(|known| known.as_ptr() == hold)
        {
            by_claim.remove(&id);
        }
    }

    /// Every hold on claims of this lease is lost.
    pub(crate) fn lose_all(&self, lost: Lost) {
        let holds: Vec<_> = {
            let mut holds = self.holds();
            holds.gone.clear();
            holds.by_claim.values().filter_map(Weak::upgrade).collect()
        };
        for hold in holds {
            hold.lose(lost, None);
        }
    }

    pub(crate) fn lose_gone(&self, gone: GoneClaim) {
        let mut holds = self.holds();
        let hold = holds.by_claim.get(&gone.id).and_then(Weak::upgrade);
        // Kept in any case: the claim may be handed over while we tell the hold
        // that we found, and the store tells us only once.
        holds.gone.insert(gone.id, gone.clone());
        drop(holds);
        let id = gone.id;
        if hold.is_some_and(|hold| hold.lose(gone.lost, gone.note)) {
            self.holds().gone.remove(&id);
        }
    }

    /// Ends the holds that have reached their limit, tells of those that have
    /// outlived their time, and says when the next one will.
    pub(crate) fn look_at_timed_holds(&self, now: Moment) -> Option<Moment> {
        let timed: Vec<_> = self
            .holds()
            .by_claim
            .values()
            .filter_map(Weak::upgrade)
            .filter(|hold| hold.is_timed())
            .collect();
        let next = timed.iter().filter_map(|hold| hold.look_at_time(now));
        next.min()
    }

    pub(crate) fn closed_error(&self, doing: String) -> Error {
        Error::new(ErrorKind::Closed, doing, "the session is closed")
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a session open: every `Session` and every hold has it. When the last
/// one goes, the session closes in the background.
#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) core: Arc<Core>,
}

impl Drop for Anchor {
    fn drop(&mut self) {
        self.core.close(None);
    }
}

impl Core {
    /// Closes the session; `done` hears when the store knows.
    pub(crate) fn close(&self, done: Option<tokio::sync::oneshot::Sender<()>>) {
        let term = match self.phases.enter(Phase::Closed) {
            Phase::Open(term) => Some(term),
            Phase::Between | Phase::Closed => None,
        };
        self.lose_all(Lost::Closed);
        let lease = term.map(|term| term.lease);
        // Without a reaper the runtime is gone, and so is everything to do.
        let _ = self.errands.send(Errand::End { lease, done });
    }
}
