//! Requests that are made at the same time go together: as one message and one
//! commit, which is most of what a request costs a database.
//!
//! Those who come while a batch waits for its connection join it. Whoever is in it
//! drives it on, so none of them depends on the others: one that is given up, or
//! that nobody polls, keeps nobody waiting.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};
use tokio::sync::oneshot;

/// One who asks.
#[derive(Debug)]
pub(crate) struct Asking<Q, A> {
    pub(crate) question: Q,
    answer: oneshot::Sender<A>,
}

impl<Q, A> Asking<Q, A> {
    pub(crate) fn answer(self, answer: A) {
        // Whoever gave up does not hear it.
        let _ = self.answer.send(answer);
    }
}

/// What became of a batch whose questions were not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// Nothing of it was done.
    Refused,
    /// It may have been carried out.
    InDoubt,
    /// The same, and the server stays silent.
    Silent,
}

type Batch = Pin<Box<dyn Future<Output = Result<(), Unanswered>> + Send>>;

/// Who is in a batch, until it goes off.
#[derive(Debug)]
pub(crate) struct Party<Q, A>(Mutex<Option<Vec<Asking<Q, A>>>>);

impl<Q, A> Party<Q, A> {
    /// From here on nobody joins.
    pub(crate) fn leave(&self) -> Vec<Asking<Q, A>> {
        lock(&self.0).take().unwrap_or_default()
    }

    /// Hands the question back if the batch is full or has gone off.
    fn join(&self, question: Q, most: usize) -> Result<oneshot::Receiver<A>, Q> {
        match &mut *lock(&self.0) {
            Some(party) if party.len() < most => {
                let (answer, hearing) = oneshot::channel();
                party.push(Asking { question, answer });
                Ok(hearing)
            }
            _ => Err(question),
        }
    }
}

/// Where those who ask meet.
pub(crate) struct Gathering<Q, A> {
    most: usize,
    open: Mutex<Option<Open<Q, A>>>,
}

struct Open<Q, A> {
    party: Arc<Party<Q, A>>,
    // Weak: a batch that everybody gave up is dropped, and what it has with it.
    batch: WeakShared<Batch>,
}

impl<Q, A> Gathering<Q, A> {
    /// Batches of at most so many.
    pub(crate) fn of_at_most(most: usize) -> Self {
        Self {
            most,
            open: Mutex::default(),
        }
    }

    /// Asks together with whoever asks now. `go` makes a batch: it waits for what
    /// it needs, lets the party leave, and answers each or says why not.
    ///
    /// # Cancel safety
    /// The question may still be asked.
    pub(crate) async fn ask<F>(
        &self,
        question: Q,
        go: impl FnOnce(Arc<Party<Q, A>>) -> F,
    ) -> Result<A, Unanswered>
    where
        F: Future<Output = Result<(), Unanswered>> + Send + 'static,
    {
        let (mut hearing, batch) = self.join(question, go);
        batch.await?;
        hearing.try_recv().map_err(|_| Unanswered::InDoubt)
    }

    fn join<F>(
        &self,
        question: Q,
        go: impl FnOnce(Arc<Party<Q, A>>) -> F,
    ) -> (oneshot::Receiver<A>, Shared<Batch>)
    where
        F: Future<Output = Result<(), Unanswered>> + Send + 'static,
    {
        let mut open = lock(&self.open);
        let mut question = question;
        if let Some(Open { party, batch }) = &*open
            && let Some(batch) = batch.upgrade()
        {
            match party.join(question, self.most) {
                Ok(hearing) => return (hearing, batch),
                Err(back) => question = back,
            }
        }
        let (answer, hearing) = oneshot::channel();
        let first = Asking { question, answer };
        let party = Arc::new(Party(Mutex::new(Some(vec![first]))));
        let going = go(party.clone());
        let batch: Batch = Box::pin(async move {
            // Those who were woken by the same answer come too.
            tokio::task::yield_now().await;
            going.await
        });
        let batch = batch.shared();
        // Nobody else has it yet, so it is not over.
        *open = batch.downgrade().map(|weak| Open { party, batch: weak });
        (hearing, batch)
    }
}

/// What is behind these locks is whole after any panic: no code that could
/// panic runs while one is taken.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Q, A> fmt::Debug for Gathering<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathering").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    /// Answers each with twice what it asked, and how many were asked with it.
    async fn doubled(
        room: Arc<Semaphore>,
        party: Arc<Party<u32, (u32, usize)>>,
    ) -> Result<(), Unanswered> {
        let _room = room.acquire().await;
        let party = party.leave();
        let many = party.len();
        for asking in party {
            let number = asking.question;
            asking.answer((2 * number, many));
        }
        Ok(())
    }

    #[tokio::test]
    async fn those_who_come_meanwhile_go_together_and_each_hears_its_own_answer() {
        let (gathering, room) = (Gathering::of_at_most(2), Arc::new(Semaphore::new(0)));
        let ask = |number| gathering.ask(number, |party| doubled(room.clone(), party));
        let free = async {
            tokio::task::yield_now().await;
            room.add_permits(1);
        };
        let (one, two, three, ()) = tokio::join!(ask(1), ask(2), ask(3), free);
        assert_eq!(one, Ok((2, 2)));
        assert_eq!(two, Ok((4, 2)));
        assert_eq!(three, Ok((6, 1)), "the batch is full");
    }

    #[tokio::test]
    async fn whoever_gives_up_or_stands_still_keeps_nobody_waiting() {
        let (gathering, room) = (Gathering::of_at_most(8), Arc::new(Semaphore::new(0)));
        let ask = |number| gathering.ask(number, |party| doubled(room.clone(), party));
        let mut first = Box::pin(ask(1));
        let mut second = Box::pin(ask(2));
        let mut third = Box::pin(ask(3));
        // All are in the batch, which the first one made.
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(first);
        room.add_permits(1);
        // The second is not polled any more.
        assert_eq!(third.await, Ok((6, 3)));
        assert_eq!(second.await, Ok((4, 3)));
    }

    #[tokio::test]
    async fn a_batch_that_everybody_gave_up_has_nothing_any_more() {
        let (gathering, room) = (Gathering::of_at_most(8), Arc::new(Semaphore::new(0)));
        let ask = |number| gathering.ask(number, |party| doubled(room.clone(), party));
        let mut first = Box::pin(ask(1));
        // It yields, and then it stands in line.
        for _ in 0..8 {
            assert!(futures_util::poll!(&mut first).is_pending());
            tokio::task::yield_now().await;
        }
        room.add_permits(1);
        drop(first);
        assert_eq!(room.available_permits(), 1);
        assert_eq!(ask(2).await, Ok((4, 1)));
    }

    #[tokio::test]
    async fn all_hear_why_there_is_no_answer() {
        let gathering: Gathering<u32, u32> = Gathering::of_at_most(8);
        let ask = |number| {
            gathering.ask(number, |party| async move {
                party.leave();
                Err(Unanswered::Refused)
            })
        };
        let (one, two) = tokio::join!(ask(1), ask(2));
        assert_eq!(one, Err(Unanswered::Refused));
        assert_eq!(two, Err(Unanswered::Refused));
    }
}
