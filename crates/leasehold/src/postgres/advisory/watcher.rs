//! Whoever watches the connections of a session: the task that listens.
//!
//! Whoever made a request drives it on, and the watcher does if nobody else does. Were
//! he woken for every answer, the two would get in each other's way each time. So
//! while there is much to do he comes by himself every few milliseconds, and is woken
//! only when there was nothing to do before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;

/// How soon he comes by himself.
const SOON: Duration = Duration::from_millis(5);

/// How to call him.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    waker: AtomicWaker,
    /// Something has happened since he was last here.
    is_called: AtomicBool,
    /// He comes by himself.
    comes: AtomicBool,
}

impl Watcher {
    /// Something can go on. He comes at once unless he comes soon anyway.
    pub(super) fn call(&self) {
        // Either this sees that he does not come, or he sees that he was called: he
        // does the same two things the other way round.
        self.is_called.store(true, Ordering::SeqCst);
        if !self.comes.load(Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Has him come at once.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}

/// His rounds. Nobody comes any more when this is dropped, until there is another.
pub(super) struct Rounds<'a> {
    watcher: &'a Watcher,
    soon: Option<BoxFuture<'static, ()>>,
}

impl<'a> Rounds<'a> {
    pub(super) fn of(watcher: &'a Watcher) -> Self {
        Self {
            watcher,
            soon: None,
        }
    }

    /// Goes round, now and whenever somebody calls, until `look` finds something.
    pub(super) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut look: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.watcher.waker.register(context.waker());
        loop {
            // What happens from here on is seen by the look, or calls again.
            let is_called = self.watcher.is_called.swap(false, Ordering::SeqCst);
            if let Poll::Ready(found) = look(context) {
                return Poll::Ready(found);
            }
            if is_called && self.soon.is_none() {
                self.watcher.comes.store(true, Ordering::SeqCst);
                self.soon = Some(tokio::time::sleep(SOON).boxed());
            }
            if let Some(soon) = &mut self.soon {
                if soon.poll_unpin(context).is_pending() {
                    return Poll::Pending;
                }
                self.soon = None;
                self.watcher.comes.store(false, Ordering::SeqCst);
            }
            // Called before it was known that he does not come: one more round.
            if !self.watcher.is_called.load(Ordering::SeqCst) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Rounds<'_> {
    fn drop(&mut self) {
        self.watcher.comes.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_called_often_comes_by_himself_and_once_more_after_the_last_call() {
        let (bell, watcher) = (Arc::new(Bell::default()), Watcher::default());
        let waker = Waker::from(bell.clone());
        let mut context = Context::from_waker(&waker);
        let mut rounds = Rounds::of(&watcher);
        let looks = AtomicUsize::new(0);
        let mut go = |context: &mut Context<'_>| {
            let look = |_: &mut Context<'_>| {
                looks.fetch_add(1, Ordering::SeqCst);
                Poll::<()>::Pending
            };
            assert!(rounds.poll(context, look).is_pending());
        };
        let rung = || bell.0.swap(0, Ordering::SeqCst);
        go(&mut context);
        assert_eq!(looks.swap(0, Ordering::SeqCst), 1);
        // Nothing was to do before: at once.
        watcher.call();
        assert_eq!(rung(), 1);
        go(&mut context);
        assert_eq!(looks.swap(0, Ordering::SeqCst), 1);
        // From now on he comes by himself.
        for _ in 0..100 {
            watcher.call();
        }
        assert_eq!(rung(), 0);
        tokio::time::sleep(SOON * 2).await;
        assert_eq!(rung(), 1);
        go(&mut context);
        assert!(looks.swap(0, Ordering::SeqCst) >= 1);
        tokio::time::sleep(SOON * 2).await;
        go(&mut context);
        rung();
        // And then it is as in the beginning.
        watcher.call();
        assert_eq!(rung(), 1);
        go(&mut context);
        // Who comes no more is woken.
        drop(rounds);
        watcher.call();
        assert_eq!(rung(), 1);
    }
}
