//! The body of a request, and whether all of it has gone on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

/// A body that takes note of its end.
#[derive(Debug)]
pub(super) struct Upload {
    body: Incoming,
    has_ended: Arc<AtomicBool>,
}

impl Upload {
    /// The body, and what says whether it has come to its end.
    pub(super) fn watched(body: Incoming) -> (Self, Arc<AtomicBool>) {
        let has_ended = Arc::new(AtomicBool::new(body.is_end_stream()));
        let upload = Self {
            body,
            has_ended: has_ended.clone(),
        };
        (upload, has_ended)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.has_ended.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
