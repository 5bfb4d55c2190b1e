//! Threads that serve connections, each by itself: a request and its answer stay
//! on one of them, so that none has to wake another.

use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::exchange::Upstream;
use super::patient::Patient;
use crate::exit::Failure;

/// A client that does not finish its headers is let go.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

/// A connection that has been accepted.
pub(super) struct Arrival {
    pub(super) stream: StdStream,
    pub(super) peer: SocketAddr,
    pub(super) place: Place,
}

/// Room for a client's connection and for the one to the service that its
/// request goes by. Both have it: a request is seen to its end also if the
/// client goes away, and clients that come and go must not add up.
pub(super) type Place = Arc<OwnedSemaphorePermit>;

/// One thread for each processor.
pub(super) fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// All threads.
pub(super) struct Workers {
    senders: Vec<mpsc::UnboundedSender<Arrival>>,
    ends: Vec<oneshot::Receiver<()>>,
    next: usize,
}

impl Workers {
    /// Each has a way of its own to the service.
    pub(super) fn start(upstream: impl Fn() -> Result<Upstream, Failure>) -> Result<Self, Failure> {
        let failed = |error| Failure::system("start a thread", error);
        let mut workers = Self {
            senders: Vec::new(),
            ends: Vec::new(),
            next: 0,
        };
        for number in 0..count() {
            let upstream = Arc::new(upstream()?);
            let (sender, arrivals) = mpsc::unbounded_channel();
            let (ended, end) = oneshot::channel();
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().map_err(failed)?;
            let name = format!("leasehold-gate-{number}");
            let work = move || {
                runtime.block_on(serve(&upstream, arrivals));
                // Connections that are idle are closed before the process ends,
                // which would reset them.
                runtime.shutdown_background();
                _ = ended.send(());
            };
            let spawned = thread::Builder::new().name(name).spawn(work);
            spawned.map_err(failed)?;
            workers.senders.push(sender);
            workers.ends.push(end);
        }
        Ok(workers)
    }

    /// Hands a connection to the next thread.
    pub(super) fn take(&mut self, arrival: Arrival) {
        self.next = (self.next + 1) % self.senders.len();
        // One that is gone cannot be told; its connection is closed.
        _ = self.senders[self.next].send(arrival);
    }

    /// Waits until what is under way has come to its end.
    pub(super) async fn finish(self) {
        drop(self.senders);
        for end in self.ends {
            _ = end.await;
        }
    }
}

async fn serve(upstream: &Arc<Upstream>, mut arrivals: mpsc::UnboundedReceiver<Arrival>) {
    let graceful = GracefulShutdown::new();
    while let Some(Arrival {
        stream,
        peer,
        place,
    }) = arrivals.recv().await
    {
        let Ok(stream) = TcpStream::from_std(stream) else {
            continue;
        };
        _ = stream.set_nodelay(true);
        let stream = Patient::new(stream, upstream.client_patience());
        let (upstream, room) = (upstream.clone(), place.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let (upstream, place) = (upstream.clone(), room.clone());
            async move { Ok::<_, hyper::Error>(upstream.answer(request, peer, place).await) }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN);
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), answer));
        tokio::spawn(async move {
            // A client that breaks off is not our trouble.
            drop(connection.await);
            drop(place);
        });
    }
    graceful.shutdown().await;
}
