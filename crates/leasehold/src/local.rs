//! Tasks of one process queue here, per name; one claim in the store serves
//! them.
//!
//! Whoever has the [`Turn`] for a name acts for the whole process: it seeks the
//! claim or holds it. When it is done the turn passes to the next in line with
//! whatever it has reached, so a cancelled wait does not lose the process its
//! place in the store's queue. A held claim is handed on only up to a bound;
//! then it goes back to the store, so that other processes are not starved.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::attempt::Attempt;
use crate::core::Core;
use crate::hold::Claim;
use crate::name::Name;
use crate::reaper::Errand;

/// How long a claim may be handed on inside the process before it goes back to
/// the store, counted from when the store granted it.
const LONGEST_STAY: Duration = Duration::from_millis(100);

/// The lines of one session, by name. A name is in here while somebody has its
/// turn.
#[derive(Debug, Default)]
pub(crate) struct Local {
    lines: Mutex<HashMap<Name, VecDeque<oneshot::Sender<Turn>>>>,
}

/// The right to act for this process on one name.
#[derive(Debug)]
pub(crate) struct Turn {
    core: Arc<Core>,
    name: Name,
    /// A claim that is being sought: passed on if we are cancelled.
    pub(crate) seeking: Option<Attempt>,
    /// A claim that is held: handed over.
    holding: Option<Claim>,
    is_passed: bool,
}

/// Where a newcomer stands.
#[expect(
    clippy::large_enum_variant,
    reason = "lives for a moment, and mostly is the large one"
)]
pub(crate) enum Place {
    /// Nobody else of this process is there.
    First(Turn),
    /// The turn will come.
    InLine(oneshot::Receiver<Turn>),
}

impl Local {
    pub(crate) fn join(core: &Arc<Core>, name: &Name) -> Place {
        let mut lines = core.local.lines();
        if let Some(line) = lines.get_mut(name) {
            // Those who stopped waiting leave before the line would grow, so it
            // is never longer than twice the number of those who wait.
            if line.len() == line.capacity() {
                line.retain(|sender| !sender.is_closed());
            }
            let (sender, receiver) = oneshot::channel();
            line.push_back(sender);
            return Place::InLine(receiver);
        }
        lines.insert(name.clone(), VecDeque::new());
        drop(lines);
        Place::First(Turn::new(core.clone(), name.clone(), None, None))
    }

    /// The turn if nobody has it, for a try.
    pub(crate) fn try_join(core: &Arc<Core>, name: &Name) -> Option<Turn> {
        let mut lines = core.local.lines();
        if lines.contains_key(name) {
            return None;
        }
        lines.insert(name.clone(), VecDeque::new());
        drop(lines);
        Some(Turn::new(core.clone(), name.clone(), None, None))
    }

    /// The next in line that still waits; takes the line down if there is none.
    fn next(&self, name: &Name) -> Option<oneshot::Sender<Turn>> {
        let mut lines = self.lines();
        let line = lines.get_mut(name)?;
        while let Some(sender) = line.pop_front() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        lines.remove(name);
        None
    }

    fn has_line(&self, name: &Name) -> bool {
        let lines = self.lines();
        lines
            .get(name)
            .is_some_and(|line| line.iter().any(|sender| !sender.is_closed()))
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Name, VecDeque<oneshot::Sender<Turn>>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    fn new(core: Arc<Core>, name: Name, seeking: Option<Attempt>, holding: Option<Claim>) -> Self {
        Self {
            core,
            name,
            seeking,
            holding,
            is_passed: false,
        }
    }

    /// The claim that was handed over with the turn, if it is still good.
    pub(crate) fn take_held(&mut self) -> Option<Claim> {
        let claim = self.holding.take()?;
        if claim.term.is_over(self.core.clock.now()) {
            self.core.send(Errand::withdraw(claim, None));
            return None;
        }
        Some(claim)
    }

    /// Hands the claim to the next in line. Gives it back, with the turn, if
    /// there is nobody or it has been here for long enough.
    pub(crate) fn hand_over(mut self, mut claim: Claim) -> Option<(Claim, Self)> {
        let most = self.core.promises.tokens_per_grant.saturating_sub(1);
        let stay = self.core.clock.now().since(claim.since);
        let may_stay = !claim.is_bound && claim.handed < most && stay < LONGEST_STAY;
        if !may_stay || !self.core.local.has_line(&self.name) {
            return Some((claim, self));
        }
        claim.handed += 1;
        self.holding = Some(claim);
        None
    }

    /// Passes the turn on with nothing: the next in line has to ask the store.
    pub(crate) fn pass_empty(mut self) {
        self.seeking = None;
        self.holding = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_passed {
            return;
        }
        self.is_passed = true;
        // A try that was cut off is of no use to those who want to wait.
        let mut seeking = self.seeking.take().filter(Attempt::waits);
        let mut holding = self.holding.take();
        while let Some(next) = self.core.local.next(&self.name) {
            let turn = Self::new(self.core.clone(), self.name.clone(), seeking, holding);
            let Err(mut turn) = next.send(turn) else {
                return;
            };
            // It stopped waiting just now; whatever the turn carries goes to
            // the one after it.
            turn.is_passed = true;
            seeking = turn.seeking.take();
            holding = turn.holding.take();
        }
        if let Some(claim) = holding {
            self.core.send(Errand::withdraw(claim, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_does_not_grow_with_those_who_stopped_waiting() {
        let session = crate::connect("memory:").await.unwrap();
        let name = Name::new("x").unwrap();
        let _held = session.mutex("x").lock().await.unwrap();
        let mutex = session.mutex("x");
        for _ in 0..1000 {
            let waited = mutex.lock_within(Duration::from_millis(1)).await;
            waited.unwrap_err();
        }
        let length = session.core().local.lines()[&name].len();
        assert!(length < 10, "{length}");
    }
}
