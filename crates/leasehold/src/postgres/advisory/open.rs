//! A session's lease: its main connection, its side connections, and what they
//! hold.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll};

use sqlx_core::error::Error as SqlxError;
use sqlx_postgres::PgRow;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::lock;
use super::line::{Line, News};
use super::proof::{Asked, Renewals};
use super::watcher::Watcher;
use crate::clock::{Moment, boot_time};
use crate::engine::{ClaimRef, Lease, Owner, Ticket, TicketId};
use crate::name::Name;

/// How many names are remembered that were waited for.
const MOST_HOT: usize = 1024;

/// A lease of ours.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    pub(super) owner: Owner,
    pub(super) main: Arc<Line>,
    pub(super) watcher: Arc<Watcher>,
    room: Arc<Semaphore>,
    idle: Mutex<Vec<Arc<Line>>>,
    /// It was said that there is no room.
    is_full: AtomicBool,
    /// All side connections that there are.
    aside: Mutex<Vec<Weak<Line>>>,
    state: Mutex<State>,
    /// Since when it is being closed.
    closed: OnceLock<Moment>,
    /// Somebody said that a claim was broken.
    pub(super) is_doubted: AtomicBool,
    /// What people asked for and have not got yet.
    pub(super) inquiries: Mutex<Vec<Inquiry>>,
}

#[derive(Debug)]
struct State {
    claims: HashMap<TicketId, Arc<Mine>>,
    /// What the main connection has, or may have, and for which claim.
    on_main: HashMap<Name, TicketId>,
    /// Names that were waited for of late.
    hot: HashSet<Name>,
    renewals: Renewals,
}

/// Somebody wants to know what we hold.
#[derive(Debug, Clone)]
pub(super) struct Inquiry {
    /// A uuid.
    pub(super) request: String,
    pub(super) name: Option<String>,
}

/// A claim of ours, from before it is asked for until it is withdrawn.
pub(super) struct Mine {
    pub(super) claim: ClaimRef,
    pub(super) holder: u64,
    pub(super) label: Option<Arc<str>>,
    pub(super) since: Moment,
    place: Mutex<Place>,
    /// The request that waits. It stays when nobody listens to it for a while.
    pub(super) waiting: tokio::sync::Mutex<Option<Waiting>>,
}

pub(super) type Waiting = Pin<Box<dyn Future<Output = Result<Vec<PgRow>, SqlxError>> + Send>>;

/// Where a claim is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// Nowhere yet.
    New,
    /// Asked for on the main connection, without an answer so far.
    Asked,
    /// Somebody else has it, and it is not in the line yet.
    Refused,
    /// All side connections are in use, and so it is in nobody's line.
    Outside,
    /// A side connection waits for it.
    Waiting(Arc<Side>),
    /// A side connection got it, maybe too long ago to count on.
    Granted {
        side: Arc<Side>,
        token: u64,
    },
    OnMain {
        token: u64,
    },
    OnSide {
        side: Arc<Side>,
        token: u64,
    },
    /// Being withdrawn: neither renewed nor missed.
    Leaving(Option<Arc<Side>>),
}

/// A side connection in use.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) line: Arc<Line>,
    _room: OwnedSemaphorePermit,
}

impl Mine {
    pub(super) fn place(&self) -> Place {
        lock(&self.place).clone()
    }

    pub(super) fn is_at(&self, place: Place) {
        *lock(&self.place) = place;
    }

    /// From here on it counts as neither held nor missed. Says where it was.
    pub(super) fn leaves(&self) -> Place {
        let mut place = lock(&self.place);
        let side = match &*place {
            Place::Waiting(side) | Place::Granted { side, .. } | Place::OnSide { side, .. } => {
                Some(side.clone())
            }
            Place::Leaving(_) => return place.clone(),
            _ => None,
        };
        std::mem::replace(&mut *place, Place::Leaving(side))
    }

    pub(super) fn token(&self) -> Option<u64> {
        match *lock(&self.place) {
            Place::OnMain { token } | Place::OnSide { token, .. } => Some(token),
            _ => None,
        }
    }

    /// The side connection that holds it, and with which token.
    pub(super) fn held_aside(&self) -> Option<(Arc<Side>, u64)> {
        match &*lock(&self.place) {
            Place::OnSide { side, token } => Some((side.clone(), *token)),
            _ => None,
        }
    }
}

impl OpenLease {
    pub(super) fn new(
        lease: Lease,
        owner: Owner,
        main: Line,
        watcher: Arc<Watcher>,
        most_aside: usize,
        last: u64,
    ) -> Self {
        Self {
            lease,
            owner,
            main: Arc::new(main),
            watcher,
            room: Arc::new(Semaphore::new(most_aside)),
            idle: Mutex::default(),
            is_full: AtomicBool::new(false),
            aside: Mutex::default(),
            state: Mutex::new(State {
                claims: HashMap::new(),
                on_main: HashMap::new(),
                hot: HashSet::new(),
                renewals: Renewals::new(last),
            }),
            closed: OnceLock::new(),
            is_doubted: AtomicBool::new(false),
            inquiries: Mutex::default(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    /// Says since when it is closed.
    pub(super) fn close(&self) -> Moment {
        *self.closed.get_or_init(boot_time)
    }

    /// The claim of this ticket, made known before it is asked for.
    pub(super) fn admit(&self, ticket: &Ticket) -> Arc<Mine> {
        let made = || {
            Arc::new(Mine {
                claim: ticket.claim.clone(),
                holder: ticket.holder,
                label: ticket.label.clone(),
                since: boot_time(),
                place: Mutex::new(Place::New),
                waiting: tokio::sync::Mutex::default(),
            })
        };
        let mut state = lock(&self.state);
        let claims = &mut state.claims;
        claims.entry(ticket.claim.id).or_insert_with(made).clone()
    }

    pub(super) fn claim(&self, id: TicketId) -> Option<Arc<Mine>> {
        lock(&self.state).claims.get(&id).cloned()
    }

    pub(super) fn claims(&self) -> Vec<Arc<Mine>> {
        lock(&self.state).claims.values().cloned().collect()
    }

    pub(super) fn forget(&self, claim: &ClaimRef) {
        let mut state = lock(&self.state);
        state.claims.remove(&claim.id);
        if state.on_main.get(&claim.name) == Some(&claim.id) {
            state.on_main.remove(&claim.name);
        }
    }

    /// Whether the main connection may be asked for this claim: it has no other
    /// of that name.
    pub(super) fn enter_main(&self, claim: &ClaimRef) -> bool {
        let mut state = lock(&self.state);
        let id = *state.on_main.entry(claim.name.clone()).or_insert(claim.id);
        id == claim.id
    }

    pub(super) fn leave_main(&self, claim: &ClaimRef) {
        let mut state = lock(&self.state);
        if state.on_main.get(&claim.name) == Some(&claim.id) {
            state.on_main.remove(&claim.name);
        }
    }

    pub(super) fn is_hot(&self, name: &Name) -> bool {
        lock(&self.state).hot.contains(name)
    }

    /// Notes whether a name had to be waited for.
    pub(super) fn learn_heat(&self, name: &Name, is_hot: bool) {
        let hot = &mut lock(&self.state).hot;
        if !is_hot {
            hot.remove(name);
        } else if hot.len() < MOST_HOT {
            hot.insert(name.clone());
        }
    }

    /// Whether a wait needs no new connection.
    pub(super) fn has_idle(&self) -> bool {
        lock(&self.idle).iter().any(|line| !line.is_broken())
    }

    /// A side connection that waits for nothing and holds nothing, or at least
    /// room for one.
    pub(super) fn aside(&self) -> Option<(OwnedSemaphorePermit, Option<Arc<Line>>)> {
        let Ok(room) = self.room.clone().try_acquire_owned() else {
            if !self.is_full.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "all side connections hold or wait; more waits are in nobody's line: \
                     raise `connections`"
                );
            }
            return None;
        };
        let mut idle = lock(&self.idle);
        while let Some(line) = idle.pop() {
            if !line.is_broken() {
                return Some((room, Some(line)));
            }
        }
        Some((room, None))
    }

    pub(super) fn side(line: Arc<Line>, room: OwnedSemaphorePermit) -> Arc<Side> {
        Arc::new(Side { line, _room: room })
    }

    /// A side connection that holds nothing any more.
    pub(super) fn keep(&self, line: Arc<Line>) {
        let mut idle = lock(&self.idle);
        // The server ends those that are idle for the ttl.
        idle.retain(|line| !line.is_broken());
        if !self.is_closed() && !line.is_broken() {
            idle.push(line);
        }
    }

    /// What a sign of life that is asked for now will prove.
    pub(super) fn asked(&self) -> Asked {
        lock(&self.state).renewals.asked()
    }

    /// Takes in that a side connection got the lock, if the lease covers it.
    /// `answered`: when that connection was asked for a sign of life and gave it.
    pub(super) fn is_granted(
        &self,
        mine: &Mine,
        side: &Arc<Side>,
        token: u64,
        answered: Option<Asked>,
    ) -> bool {
        // While this is locked there is no renewal: the next one sees the claim.
        let state = lock(&self.state);
        let is_covered = state.renewals.cover(token, answered);
        let side = side.clone();
        mine.is_at(match is_covered {
            true => Place::OnSide { side, token },
            false => Place::Granted { side, token },
        });
        is_covered
    }

    /// Takes in a renewal when all that hold were renewed with it, or have got
    /// their lock since; else says which were not.
    pub(super) fn is_renewed(&self, last: u64, proven: &HashSet<i32>) -> Vec<Arc<Side>> {
        let mut state = lock(&self.state);
        let held = state.claims.values().filter_map(|mine| mine.held_aside());
        let left: Vec<_> = held
            .filter(|(side, token)| *token <= last && !proven.contains(&side.line.pid))
            .map(|(side, _)| side)
            .filter(|side| !side.line.is_broken())
            .collect();
        if left.is_empty() {
            state.renewals.add(last);
        }
        left
    }

    /// A new side connection.
    pub(super) fn add_aside(&self, line: &Arc<Line>) {
        lock(&self.aside).push(Arc::downgrade(line));
    }

    /// Side connections, whatever they do.
    pub(super) fn lines_aside(&self) -> Vec<Arc<Line>> {
        let mut aside = lock(&self.aside);
        aside.retain(|line| line.strong_count() > 0);
        aside.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn drop_idle(&self) {
        lock(&self.idle).clear();
    }

    /// What a connection says; `None` if one was ended by the server. For the
    /// watcher on his rounds.
    pub(super) fn poll_news(&self, context: &mut Context<'_>) -> Poll<Option<String>> {
        match self.main.poll_news(context) {
            Poll::Ready(News::Message(text)) => return Poll::Ready(Some(text)),
            Poll::Ready(News::Broken) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        for line in self.lines_aside() {
            if let Poll::Ready(News::Broken) = line.poll_news(context) {
                return Poll::Ready(None);
            }
        }
        Poll::Pending
    }
}

impl std::fmt::Debug for Mine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mine({:?})", self.claim)
    }
}
