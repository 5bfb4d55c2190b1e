//! Where a session is in its life, and how its parts hear of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::core::Term;

/// Where a session is in its life.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// It has a lease.
    Open(Arc<Term>),
    /// The lease was lost and the next one is not there yet.
    Between,
    /// It is closed for good.
    Closed,
}

/// The present phase. A `tokio::sync::watch` would do, but it wakes its
/// receivers in a random order, and then no seed of the simulation repeats.
#[derive(Debug)]
pub(crate) struct Phases {
    current: Mutex<Phase>,
    changed: Notify,
}

impl Phases {
    pub(crate) fn new(phase: Phase) -> Self {
        Self {
            current: Mutex::new(phase),
            changed: Notify::new(),
        }
    }

    pub(crate) fn current(&self) -> Phase {
        self.lock().clone()
    }

    /// Enters the phase and says which one it was before; a session that is
    /// closed stays closed.
    pub(crate) fn enter(&self, phase: Phase) -> Phase {
        let mut current = self.lock();
        let before = current.clone();
        if !matches!(before, Phase::Closed) {
            *current = phase;
        }
        drop(current);
        self.changed.notify_waiters();
        before
    }

    /// Waits until the phase is one for which `find` has an answer.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn until<T>(&self, find: impl Fn(&Phase) -> Option<T>) -> T {
        loop {
            // Made before looking, so a change right after is not missed.
            let changed = self.changed.notified();
            if let Some(found) = find(&self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
