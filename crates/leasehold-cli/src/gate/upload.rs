//! The body of a request: whether all of it has gone on, and that none of it
//! goes on after the request's time is over.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;

/// A body that takes note of its end, and that breaks off when its [`Watch`] is
/// gone.
#[derive(Debug)]
pub(super) struct Upload<B = Incoming> {
    body: B,
    has_ended: Arc<AtomicBool>,
    watch: oneshot::Receiver<()>,
}

/// What an upload is seen by. A client may stop in the middle of one and go on
/// an hour later, and HTTP lets a service answer before that. So whoever says
/// that a request is over lets go of this first: then the connection to the
/// service is closed, and what comes later does not reach it.
#[derive(Debug)]
pub(super) struct Watch {
    has_ended: Arc<AtomicBool>,
    _open: oneshot::Sender<()>,
}

impl Watch {
    /// Whether the whole body has been taken from the client.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

impl<B: Body> Upload<B> {
    pub(super) fn watched(body: B) -> (Self, Watch) {
        let has_ended = Arc::new(AtomicBool::new(body.is_end_stream()));
        let (_open, watch) = oneshot::channel();
        let upload = Self {
            body,
            has_ended: has_ended.clone(),
            watch,
        };
        (upload, Watch { has_ended, _open })
    }
}

impl<B> Body for Upload<B>
where
    B: Body<Data = Bytes, Error: Error + Send + Sync + 'static> + Unpin,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if Pin::new(&mut self.watch).poll(context).is_ready() {
            return Poll::Ready(Some(Err("the request's time is over".into())));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.has_ended.store(true, Ordering::Release);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt as _, channel::Channel};

    #[tokio::test]
    async fn what_comes_after_the_watch_is_gone_does_not_go_on() {
        let (mut client, body) = Channel::<Bytes, std::io::Error>::new(4);
        let (mut upload, watch) = Upload::watched(body);
        client.send_data("half".into()).await.unwrap();
        assert!(upload.frame().await.unwrap().is_ok());
        assert!(!watch.has_ended());
        let rest = tokio::spawn(async move { upload.frame().await });
        // It waits for the client, and is woken to break off.
        tokio::task::yield_now().await;
        drop(watch);
        assert!(rest.await.unwrap().unwrap().is_err());
        assert!(client.send_data("rest".into()).await.is_err());
    }

    #[tokio::test]
    async fn a_body_that_has_gone_on_has_ended() {
        let (mut client, body) = Channel::<Bytes, std::io::Error>::new(4);
        let (upload, watch) = Upload::watched(body);
        client.send_data("all".into()).await.unwrap();
        drop(client);
        assert_eq!(upload.collect().await.unwrap().to_bytes(), "all");
        assert!(watch.has_ended());
    }
}
