//! A connection to somebody who may not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream that breaks when nothing of what is written to it has been taken for
/// a while. A client that is stopped would else keep its place and its answer's
/// connection to the service for ever, and a service that has answered, but does
/// not read what is left of the request, its connection.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            stuck: None,
        }
    }

    fn limited<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience;
        let stuck = self.stuck.get_or_insert_with(|| {
            // It starts when the first write does not go on.
            Box::pin(tokio::time::sleep(patience))
        });
        ready!(stuck.as_mut().poll(context));
        let why = "the other side does not read";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: Connection> Connection for Patient<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.limited(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn whoever_does_not_read_is_let_go() {
        let (server, _client) = tokio::io::duplex(4);
        let mut server = Patient::new(server, Duration::from_millis(20));
        let error = server.write_all(&[b'x'; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn whoever_reads_a_little_is_waited_for_anew() {
        let (server, mut client) = tokio::io::duplex(4);
        let mut server = Patient::new(server, Duration::from_secs(3600));
        for _ in 0..3 {
            server.write_all(b"full").await.unwrap();
            assert!(server.stuck.is_none());
            let is_stuck = std::future::poll_fn(|context| {
                let more = Pin::new(&mut server).poll_write(context, b"more");
                Poll::Ready(more.is_pending())
            });
            assert!(is_stuck.await);
            assert!(server.stuck.is_some());
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
    }
}
