//! A connection that can hold locks, and hears at once when the server ends it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;

use super::super::ears::Connection;
use super::super::lock;
use super::requests::{Answer, Request, Requests, not_connected};
use super::watcher::Watcher;
use crate::clock::boot_time;

/// A connection, the server's process behind it, and the random key that it
/// holds as long as it lives.
pub(super) struct Line {
    pub(super) pid: i32,
    pub(super) key: i64,
    /// What the keys of names are made with.
    pub(super) seed: i64,
    requests: Mutex<Requests>,
    is_broken: AtomicBool,
    is_told: AtomicBool,
    watcher: Arc<Watcher>,
}

/// What a connection says by itself.
pub(super) enum News {
    Message(String),
    /// The server ended it. Said once.
    Broken,
}

impl Line {
    pub(super) fn new(key: i64, connection: Connection, watcher: Arc<Watcher>) -> Self {
        Self {
            pid: 0,
            key,
            seed: 0,
            requests: Mutex::new(Requests::new(connection, watcher.clone())),
            is_broken: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            watcher,
        }
    }

    /// The same, now that the server has said what it is there.
    pub(super) fn known(mut self, pid: i32, seed: i64) -> Self {
        (self.pid, self.seed) = (pid, seed);
        self
    }

    pub(super) fn watcher(&self) -> Arc<Watcher> {
        self.watcher.clone()
    }

    /// Makes a request, after those before it.
    ///
    /// # Cancel safety
    /// The server may carry it out; what is asked later comes after it.
    pub(super) async fn run(&self, text: String) -> Answer {
        self.ask(text, false).await
    }

    /// Makes a request that goes before all that are not urgent: what keeps the
    /// lease must not stand behind a crowd.
    ///
    /// # Cancel safety
    /// The server may carry it out.
    pub(super) async fn run_urgent(&self, text: String) -> Answer {
        self.ask(text, true).await
    }

    async fn ask(&self, text: String, is_urgent: bool) -> Answer {
        let (reply, mut answer) = oneshot::channel();
        let owner = Arc::new(AtomicWaker::new());
        lock(&self.requests).add(Request {
            text,
            reply,
            owner: owner.clone(),
            is_urgent,
        });
        let answered = std::future::poll_fn(|context| {
            owner.register(context.waker());
            self.drive(&mut lock(&self.requests));
            answer.poll_unpin(context)
        });
        answered.await.unwrap_or_else(|_| not_connected())
    }

    fn drive(&self, requests: &mut Requests) {
        requests.drive();
        if requests.is_broken() {
            self.is_broken.store(true, Ordering::Release);
        }
    }

    /// How long it has said nothing.
    pub(super) fn silence(&self) -> Duration {
        boot_time().since(lock(&self.requests).answered())
    }

    /// Refuses all that is not urgent from here on: nothing may be taken after
    /// everything was given back.
    pub(super) fn close(&self) {
        lock(&self.requests).close();
    }

    /// Leaves the connection, as if the server had ended it.
    pub(super) fn end(&self) {
        let mut requests = lock(&self.requests);
        requests.end();
        self.drive(&mut requests);
        self.watcher.wake();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// What the server says while nobody asks it anything. Also drives on what
    /// is under way. For the watcher on his rounds.
    pub(super) fn poll_news(&self, context: &mut Context<'_>) -> Poll<News> {
        let mut requests = lock(&self.requests);
        self.drive(&mut requests);
        if !self.is_broken() {
            // Without it something is under way, and its end calls the watcher.
            let Some(connection) = requests.idle() else {
                return Poll::Pending;
            };
            let heard = match connection.listener() {
                // What has come in part is kept for the next time.
                Some(listener) => std::pin::pin!(listener.try_recv()).poll(context),
                None => Poll::Ready(Ok(None)),
            };
            match heard {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(message))) => {
                    return Poll::Ready(News::Message(message.payload().to_owned()));
                }
                Poll::Ready(Ok(None) | Err(_)) => {
                    requests.end();
                    self.drive(&mut requests);
                }
            }
        }
        match self.is_told.swap(true, Ordering::AcqRel) {
            false => Poll::Ready(News::Broken),
            true => Poll::Pending,
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({})", self.pid)
    }
}
