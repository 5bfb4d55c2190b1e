//! How many cases run at once. The end of one is told however it ends: one that
//! breaks off does not keep the others waiting.

use std::sync::{Condvar, Mutex, PoisonError};

pub(crate) struct Turns {
    at_once: usize,
    running: Mutex<usize>,
    ended: Condvar,
}

/// One of those that run.
pub(crate) struct Turn(&'static Turns);

impl Turns {
    pub(crate) const fn new(at_once: usize) -> Self {
        Self {
            at_once,
            running: Mutex::new(0),
            ended: Condvar::new(),
        }
    }

    /// Waits until it may begin.
    pub(crate) fn take(&'static self) -> Turn {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |running: &mut usize| *running >= self.at_once;
        let running = self.ended.wait_while(running, is_full);
        *running.unwrap_or_else(PoisonError::into_inner) += 1;
        Turn(self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let turns = self.0;
        *turns.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        turns.ended.notify_one();
    }
}
