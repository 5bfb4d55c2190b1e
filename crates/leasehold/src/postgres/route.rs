//! Which of several servers takes writes: that of those named to which a
//! connection is made.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use sqlx_core::connection::{ConnectOptions, Connection};
use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_postgres::{PgConnectOptions, PgConnection};
use tokio::time::timeout;

use super::text::column;
use crate::tls::distrust;

/// How long all of them may take together to say whether they take writes.
const LIMIT: Duration = Duration::from_secs(4);
/// How long one may take before the next is asked as well.
const PATIENCE: Duration = Duration::from_millis(250);

const TAKES_WRITES: &str =
    "select not pg_is_in_recovery() and current_setting('transaction_read_only') = 'off'";

/// The servers of one database, in the order in which the URL names them.
pub(super) struct Route {
    servers: Vec<PgConnectOptions>,
    /// The one that took writes last.
    current: AtomicUsize,
    /// The one with which a search begins.
    first: AtomicUsize,
}

impl Route {
    /// `servers` must not be empty.
    pub(super) fn new(servers: Vec<PgConnectOptions>) -> Self {
        Self {
            servers,
            current: AtomicUsize::new(0),
            first: AtomicUsize::new(0),
        }
    }

    /// How to reach the server that took writes last.
    pub(super) fn options(&self) -> PgConnectOptions {
        self.servers[self.current.load(Ordering::Acquire)].clone()
    }

    /// A connection to the server, or to the one of several that takes writes.
    pub(super) async fn connect(&self) -> Result<PgConnection, SqlxError> {
        if let [only] = &self.servers[..] {
            return only.connect().await;
        }
        let mut trouble = None;
        if let Ok(Some(connection)) = timeout(LIMIT, self.search(&mut trouble)).await {
            return Ok(connection);
        }
        // One that is wrong says more than one that is a standby or away.
        match trouble {
            Some(error @ SqlxError::Database(_)) => Err(error),
            Some(error) if distrust(&error).is_some() => Err(error),
            _ => {
                let why = "none of the servers that the URL names takes writes";
                Err(SqlxError::Io(std::io::Error::other(why)))
            }
        }
    }

    /// Finds out which of several takes writes, for whoever connects by himself.
    pub(super) async fn settle(&self) {
        if self.servers.len() > 1
            && let Ok(connection) = self.connect().await
        {
            let _ = connection.close().await;
        }
    }

    /// Asks one after the other, without waiting long for one that is silent: its
    /// machine may be gone, and then nobody says so.
    async fn search(&self, trouble: &mut Option<SqlxError>) -> Option<PgConnection> {
        let (count, first) = (self.servers.len(), self.first.load(Ordering::Acquire));
        let mut others = (first..first + count).map(|number| number % count);
        let mut asked = FuturesUnordered::new();
        loop {
            match others.next() {
                Some(number) => asked.push(self.ask(number)),
                None if asked.is_empty() => return None,
                None => {}
            }
            let answer = match others.len() {
                0 => asked.next().await,
                _ => match timeout(PATIENCE, asked.next()).await {
                    Ok(answer) => answer,
                    Err(_) => continue,
                },
            };
            match answer {
                Some((number, Ok(Some(connection)))) => {
                    self.current.store(number, Ordering::Release);
                    self.first.store(number, Ordering::Release);
                    return Some(connection);
                }
                Some((_, Err(error))) => *trouble = Some(error),
                Some((_, Ok(None))) | None => {}
            }
        }
    }

    async fn ask(&self, number: usize) -> (usize, Result<Option<PgConnection>, SqlxError>) {
        let mut silence = Silence {
            route: self,
            number,
            is_over: false,
        };
        let answer = writer(&self.servers[number]).await;
        silence.is_over = true;
        (number, answer)
    }
}

/// A server that has not answered. If nobody waits for it any longer, the next
/// search begins with the one after it: whoever has little time gets there too.
struct Silence<'a> {
    route: &'a Route,
    number: usize,
    is_over: bool,
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let next = (self.number + 1) % self.route.servers.len();
            let first = &self.route.first;
            // Unless somebody has found the right one meanwhile.
            let _ = first.compare_exchange(self.number, next, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// A connection, if this server takes writes.
async fn writer(options: &PgConnectOptions) -> Result<Option<PgConnection>, SqlxError> {
    let mut connection = options.connect().await?;
    let row = connection.fetch_one(raw_sql(TAKES_WRITES)).await?;
    Ok((column(&row, 0) == Some("t")).then_some(connection))
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Route({})", self.servers.len())
    }
}
