//! Requests that go to a store together.
//!
//! A request goes alone and at once as long as few others are under way, so
//! whoever is alone pays nothing. Where many are, they gather, and go as one when a
//! way is free: that is one message to send, to do and to answer instead of many.
//!
//! Those who gathered are taken to the store by a task, which ends when nobody
//! waits any more. They wait for such tasks only: so nobody depends on another who
//! is not polled or gives up.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Takes those who gathered to the store.
pub(crate) trait Carrier: Send + Sync + Sized + 'static {
    type Question: Send;
    type Answer: Send;

    fn gathering(&self) -> &Gathering<Self::Question, Self::Answer>;

    /// Lets a party depart and answers everyone in it. Whatever goes wrong, those
    /// whom it does not take along must not be left waiting for another reason
    /// than that the party is full.
    fn carry(&self) -> impl Future<Output = ()> + Send;
}

/// Where those who ask meet.
pub(crate) struct Gathering<Q, A> {
    /// How many parties may be under way at once, and how many who go alone.
    ways: usize,
    waiting: Mutex<Waiting<Q, A>>,
    /// Taken while a party departs, and by whoever gives up: so one who gave up
    /// was either sent before that or is never sent.
    gate: Mutex<()>,
    runtime: Handle,
}

struct Waiting<Q, A> {
    asked: VecDeque<Asked<Q, A>>,
    /// Tasks that take parties to the store.
    rounds: usize,
    /// Which rounds count: those of an earlier era lead nowhere.
    era: u64,
    /// How many who went alone are not back.
    alone: usize,
}

/// One who asks.
pub(crate) struct Asked<Q, A> {
    pub(crate) question: Q,
    answer: oneshot::Sender<A>,
}

impl<Q, A> Asked<Q, A> {
    pub(crate) fn answer(self, answer: A) {
        // Whoever gave up does not hear it.
        let _ = self.answer.send(answer);
    }
}

/// Returns when all of them have given up.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) async fn all_gone<Q, A>(party: &mut [Asked<Q, A>]) {
    for one in party {
        one.answer.closed().await;
    }
}

/// How one goes who asks.
pub(crate) enum Joined<C: Carrier> {
    /// At once, by itself; it keeps this until it is answered.
    Alone(Way<C>),
    /// With others.
    Together(Place<C>),
}

impl<Q, A> Gathering<Q, A> {
    /// With so many ways. Called where the tasks are to run.
    pub(crate) fn new(ways: usize) -> Self {
        Self {
            ways,
            waiting: Mutex::new(Waiting {
                asked: VecDeque::new(),
                rounds: 0,
                era: 0,
                alone: 0,
            }),
            gate: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    fn goes_alone(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        let goes = waiting.rounds == 0 && waiting.alone < self.ways;
        waiting.alone += usize::from(goes);
        goes
    }

    /// How many wait to be taken along.
    #[cfg(feature = "redis")]
    pub(crate) fn crowd(&self) -> usize {
        lock(&self.waiting).asked.len()
    }

    /// It changes when what is under way leads nowhere.
    #[cfg(feature = "redis")]
    pub(crate) fn era(&self) -> u64 {
        lock(&self.waiting).era
    }

    /// Takes at most so many who still wait and are still wanted, and sends their
    /// questions. `None` if there is nobody.
    ///
    /// When `send` returns the questions must be on their way, such that nothing
    /// that is sent later gets there before them; or the store itself must refuse what
    /// comes after its withdrawal, as databases do, whose requests take any connection.
    pub(crate) fn depart<R>(
        &self,
        most: usize,
        is_wanted: impl Fn(&Q) -> bool,
        send: impl FnOnce(&[Asked<Q, A>]) -> R,
    ) -> Option<(Vec<Asked<Q, A>>, R)> {
        let closed = lock(&self.gate);
        let first: Vec<_> = {
            let asked = &mut lock(&self.waiting).asked;
            let count = asked.len().min(most);
            asked.drain(..count).collect()
        };
        let goes = |one: &Asked<Q, A>| !one.answer.is_closed() && is_wanted(&one.question);
        let (party, left): (Vec<_>, Vec<_>) = first.into_iter().partition(goes);
        let sent = (!party.is_empty()).then(|| send(&party));
        // Those who are left out are woken by that: not while a lock is taken.
        drop(closed);
        drop(left);
        Some((party, sent?))
    }

    /// Returns when whoever was found wanted before this has been sent.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn seal(&self) {
        drop(lock(&self.gate));
    }
}

/// Goes alone if few are under way, else with whoever else is about to go.
pub(crate) fn join<C: Carrier>(
    carrier: &Arc<C>,
    question: impl FnOnce() -> C::Question,
) -> Joined<C> {
    let gathering = carrier.gathering();
    if gathering.goes_alone() {
        let carrier = carrier.clone();
        return Joined::Alone(Way { carrier });
    }
    let (answer, hearing) = oneshot::channel();
    let question = question();
    let mut waiting = lock(&gathering.waiting);
    waiting.asked.push_back(Asked { question, answer });
    go_on(carrier, waiting);
    Joined::Together(Place {
        carrier: carrier.clone(),
        hearing: Some(hearing),
    })
}

/// What is under way now leads nowhere: nobody waits for it any longer.
#[cfg(any(feature = "redis", test))]
pub(crate) fn disown<C: Carrier>(carrier: &Arc<C>) {
    let mut waiting = lock(&carrier.gathering().waiting);
    waiting.era += 1;
    waiting.rounds = 0;
    go_on(carrier, waiting);
}

/// Lets one more task carry those who wait, if that helps.
fn go_on<C: Carrier>(
    carrier: &Arc<C>,
    mut waiting: MutexGuard<'_, Waiting<C::Question, C::Answer>>,
) {
    let gathering = carrier.gathering();
    if waiting.asked.is_empty() || waiting.rounds >= gathering.ways {
        return;
    }
    waiting.rounds += 1;
    let round = Round {
        carrier: carrier.clone(),
        era: waiting.era,
        is_over: false,
    };
    // A runtime that is going drops it at once.
    drop(waiting);
    gathering.runtime.spawn(round.drive());
}

/// What one has who goes alone, until it is back.
pub(crate) struct Way<C: Carrier> {
    carrier: Arc<C>,
}

impl<C: Carrier> Drop for Way<C> {
    fn drop(&mut self) {
        lock(&self.carrier.gathering().waiting).alone -= 1;
    }
}

/// A task that takes one party after the other to the store.
struct Round<C: Carrier> {
    carrier: Arc<C>,
    era: u64,
    is_over: bool,
}

impl<C: Carrier> Round<C> {
    async fn drive(mut self) {
        while !self.is_over {
            self.carrier.carry().await;
            // Those who were just answered may ask again: together, then.
            tokio::task::yield_now().await;
            let mut waiting = lock(&self.carrier.gathering().waiting);
            if waiting.era != self.era {
                self.is_over = true;
            } else if waiting.asked.is_empty() {
                waiting.rounds -= 1;
                self.is_over = true;
            }
        }
    }
}

impl<C: Carrier> Drop for Round<C> {
    /// Only if the task did not come to its end: its runtime is going, or it
    /// panicked. Whoever waits for it hears that there is no answer.
    fn drop(&mut self) {
        let mut waiting = lock(&self.carrier.gathering().waiting);
        if !self.is_over && waiting.era == self.era {
            waiting.rounds -= 1;
            let left = std::mem::take(&mut waiting.asked);
            drop(waiting);
            drop(left);
        }
    }
}

/// The place of one who goes with others. Whoever gives it up is not taken along,
/// if it is not too late for that.
pub(crate) struct Place<C: Carrier> {
    carrier: Arc<C>,
    hearing: Option<oneshot::Receiver<C::Answer>>,
}

impl<C: Carrier> Place<C> {
    /// `None` if it was not wanted any more or the task is gone: then it is not
    /// known whether the question was asked.
    pub(crate) async fn answer(mut self) -> Option<C::Answer> {
        let answer = self.hearing.as_mut()?.await.ok();
        self.hearing = None;
        answer
    }
}

impl<C: Carrier> Drop for Place<C> {
    fn drop(&mut self) {
        if let Some(hearing) = self.hearing.take() {
            let _closed = lock(&self.carrier.gathering().gate);
            drop(hearing);
        }
    }
}

impl<Q, A> fmt::Debug for Gathering<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathering")
            .field("ways", &self.ways)
            .finish()
    }
}

/// What is behind these locks is whole after any panic: no code that could panic
/// runs while one is taken, but for a carrier's own, which leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
