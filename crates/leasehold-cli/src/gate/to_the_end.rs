//! Work that goes on although nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that becomes a task of its own if it is dropped before its end.
/// A task for each request would do as well, but costs each a detour.
#[derive(Debug)]
pub(super) struct ToTheEnd<F>(Option<Pin<Box<F>>>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static;

impl<F> ToTheEnd<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    pub(super) fn new(work: F) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<F> Future for ToTheEnd<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let work = self.0.as_mut().expect("nobody asks after the end");
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<F> Drop for ToTheEnd<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn drop(&mut self) {
        let here = tokio::runtime::Handle::try_current();
        if let (Some(work), Ok(here)) = (self.0.take(), here) {
            here.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_still_comes_to_its_end() {
        let (go, may_go) = oneshot::channel::<()>();
        let (told, ended) = oneshot::channel();
        let mut work = ToTheEnd::new(async {
            may_go.await.unwrap();
            told.send(7).unwrap();
        });
        assert!(futures_poll(&mut work).await);
        drop(work);
        go.send(()).unwrap();
        assert_eq!(ended.await, Ok(7));
    }

    /// Polls once; whether it waits.
    async fn futures_poll(work: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *work).poll(context).is_pending()))
            .await
    }
}
