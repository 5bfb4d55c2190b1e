//! A connection that can hold locks, and hears at once when the server ends it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_postgres::PgRow;
use tokio::sync::{Mutex, MutexGuard};

use super::super::ears::Connection;
use super::super::fault::{Cure, cure};

/// A connection, the server's process behind it, and the random key that it
/// holds as long as it lives.
pub(super) struct Line {
    pub(super) pid: i32,
    pub(super) key: i64,
    /// What the keys of names are made with.
    pub(super) seed: i64,
    connection: Mutex<Option<Connection>>,
    is_broken: AtomicBool,
    is_told: AtomicBool,
    /// Whoever watches the connection, when nobody uses it.
    watcher: Arc<AtomicWaker>,
}

/// What a connection says by itself.
pub(super) enum News {
    Message(String),
    /// The server ended it. Said once.
    Broken,
}

impl Line {
    pub(super) fn new(key: i64, connection: Connection, watcher: Arc<AtomicWaker>) -> Self {
        Self {
            pid: 0,
            key,
            seed: 0,
            connection: Mutex::new(Some(connection)),
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

    pub(super) fn watcher(&self) -> Arc<AtomicWaker> {
        self.watcher.clone()
    }

    /// Makes a request, after those before it.
    ///
    /// # Cancel safety
    /// The server may carry it out; what is asked later comes after it.
    pub(super) async fn run(&self, text: String) -> Result<Vec<PgRow>, SqlxError> {
        let connection = self.connection.lock().await;
        let mut turn = Turn {
            connection: Some(connection),
            watcher: &self.watcher,
        };
        let answer = match turn.open().and_then(Connection::listener) {
            Some(listener) => listener.fetch_all(raw_sql(AssertSqlSafe(text))).await,
            None => Err(SqlxError::Io(std::io::ErrorKind::NotConnected.into())),
        };
        if matches!(&answer, Err(error) if cure(error) == Cure::Reconnect) {
            self.breaks(turn.slot());
        }
        answer
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    fn breaks(&self, slot: Option<&mut Option<Connection>>) {
        self.is_broken.store(true, Ordering::Release);
        // Used again, it would be another connection, which holds nothing.
        if let Some(slot) = slot {
            *slot = None;
        }
    }

    /// What the server says while nobody asks it anything. Whoever uses the
    /// connection wakes the watcher afterwards.
    pub(super) fn poll_news(&self, context: &mut Context<'_>) -> Poll<News> {
        loop {
            if self.is_broken() {
                return match self.is_told.swap(true, Ordering::AcqRel) {
                    false => Poll::Ready(News::Broken),
                    true => Poll::Pending,
                };
            }
            let Ok(mut slot) = self.connection.try_lock() else {
                return Poll::Pending;
            };
            let listener = slot.as_mut().and_then(Connection::listener);
            let heard = match listener {
                // What has come in part is kept for the next time.
                Some(listener) => std::pin::pin!(listener.try_recv()).poll(context),
                None => Poll::Ready(Ok(None)),
            };
            match heard {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(message))) => {
                    return Poll::Ready(News::Message(message.payload().to_owned()));
                }
                Poll::Ready(Ok(None) | Err(_)) => self.breaks(Some(&mut slot)),
            }
        }
    }
}

/// The connection in use.
struct Turn<'a> {
    connection: Option<MutexGuard<'a, Option<Connection>>>,
    watcher: &'a AtomicWaker,
}

impl Turn<'_> {
    fn slot(&mut self) -> Option<&mut Option<Connection>> {
        self.connection.as_deref_mut()
    }

    fn open(&mut self) -> Option<&mut Connection> {
        self.slot()?.as_mut()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.connection = None;
        self.watcher.wake();
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({})", self.pid)
    }
}
