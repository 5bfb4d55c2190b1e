//! A connection to the service, and what becomes of the bytes that are on it.
//!
//! Bytes can outlive their request: in hyper's buffer, when the service does not
//! read, and in the kernel, which goes on sending for minutes after a socket was
//! closed and after its process was killed. So a connection is set to be reset
//! when it ends, which throws away what was not sent; the kernel does that also
//! for a process that is killed. Only one whose last request was answered to its
//! end is closed in the usual way: a service may answer before it has read all,
//! and a reset would take the rest from it. Who holds next waits for the former
//! and not for the latter.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper::http::Extensions;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a connection and the requests on it know of each other.
#[derive(Debug)]
struct Line(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Requests so far. The pool gives a connection to the next one only when
    /// the whole answer to the one before has been read, so only the last can
    /// have bytes that matter: those of earlier ones are before its own.
    begun: u64,
    /// Whether the last one was answered to its end.
    is_settled: bool,
    is_cut: bool,
    /// A connection that ended before its last request was judged.
    ended: Option<TcpStream>,
    /// Of the task that has the connection.
    waker: Option<Waker>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: Arc<Self>) -> Sent {
        let mut state = self.lock();
        state.begun += 1;
        state.is_settled = false;
        let number = state.begun;
        drop(state);
        Sent { line: self, number }
    }
}

/// A request that went by a connection; if it is dropped unsettled, the
/// connection is cut.
#[derive(Debug)]
struct Sent {
    line: Arc<Line>,
    number: u64,
}

impl Sent {
    fn settle(self) {
        let mut state = self.line.lock();
        if state.begun == self.number {
            state.is_settled = true;
            if let Some(stream) = state.ended.take() {
                close(stream);
            }
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        if state.begun == self.number && !state.is_settled {
            state.is_cut = true;
            // A reset.
            state.ended = None;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }
}

/// Follows a request to the connection that it goes by.
#[derive(Debug)]
pub(super) struct Trace {
    captured: CaptureConnection,
    sent: Option<Sent>,
}

impl Trace {
    pub(super) fn new(captured: CaptureConnection) -> Self {
        let sent = None;
        Self { captured, sent }
    }

    /// To be called whenever sending pauses: then it is either on a connection
    /// or waits for one. It may come to a second one if the first turns out to
    /// be closed before anything was sent.
    pub(super) fn follow(&mut self) {
        let mut extras = Extensions::new();
        if let Some(connected) = &*self.captured.connection_metadata() {
            connected.get_extras(&mut extras);
        }
        let Some(line) = extras.remove::<Arc<Line>>() else {
            return;
        };
        let is_known = |sent: &Sent| Arc::ptr_eq(&sent.line, &line);
        if !self.sent.as_ref().is_some_and(is_known) {
            self.sent = Some(line.begin());
        }
    }

    /// The request was answered to its end. One that is dropped without that is
    /// cut off.
    pub(super) fn settle(self) {
        if let Some(sent) = self.sent {
            sent.settle();
        }
    }
}

/// The connection itself, in hyper's hands.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Option<TcpStream>,
    line: Arc<Line>,
}

impl Wire {
    /// Takes a connection on which nothing was sent.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_zero_linger()?;
        let state = State {
            begun: 0,
            is_settled: true,
            is_cut: false,
            ended: None,
            waker: None,
        };
        Ok(Self {
            stream: Some(stream),
            line: Arc::new(Line(Mutex::new(state))),
        })
    }

    /// The stream, unless it is cut.
    fn stream(&mut self, context: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        let mut state = self.line.lock();
        let is_known = |waker: &Waker| waker.will_wake(context.waker());
        if !state.waker.as_ref().is_some_and(is_known) {
            state.waker = Some(context.waker().clone());
        }
        let cut = || io::Error::new(io::ErrorKind::ConnectionAborted, "the request is over");
        match &mut self.stream {
            Some(stream) if !state.is_cut => Ok(Pin::new(stream)),
            _ => Err(cut()),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        match self.stream.take() {
            Some(stream) if state.is_settled => close(stream),
            Some(stream) if !state.is_cut => state.ended = Some(stream),
            // A reset.
            _ => {}
        }
    }
}

/// Closes a connection without a reset: the kernel sends what is left.
fn close(stream: TcpStream) {
    // It is a time to linger that would block, not that there is none. If it
    // fails, the other side has closed already.
    #[allow(deprecated, reason = "the usual way to close does not block")]
    let _ = stream.set_linger(None);
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.line.clone())
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream(context)?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream(context)?.poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_shutdown(context)
    }
}
