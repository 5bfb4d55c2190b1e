//! Which of several servers takes writes: that of those named to which a
//! connection is made.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx_core::connection::ConnectOptions;
use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_postgres::{PgConnectOptions, PgConnection};
use tokio::time::timeout;

use super::text::column;

/// How long all of them may take together to say whether they take writes.
const LIMIT: Duration = Duration::from_secs(4);

const TAKES_WRITES: &str =
    "select not pg_is_in_recovery() and current_setting('transaction_read_only') = 'off'";

/// The servers of one database, in the order in which the URL names them.
pub(super) struct Route {
    servers: Vec<PgConnectOptions>,
    /// The one that took writes last.
    current: AtomicUsize,
}

impl Route {
    /// `servers` must not be empty.
    pub(super) fn new(servers: Vec<PgConnectOptions>) -> Self {
        Self {
            servers,
            current: AtomicUsize::new(0),
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
        let (count, first) = (self.servers.len(), self.current.load(Ordering::Acquire));
        let limit = LIMIT / u32::try_from(count).unwrap_or(u32::MAX);
        let mut trouble = None;
        for number in (first..first + count).map(|number| number % count) {
            let asked = timeout(limit, writer(&self.servers[number])).await;
            match asked {
                Ok(Ok(Some(connection))) => {
                    self.current.store(number, Ordering::Release);
                    return Ok(connection);
                }
                Ok(Ok(None)) | Err(_) => {}
                Ok(Err(error)) => trouble = Some(error),
            }
        }
        // One that is wrong says more than one that is a standby or away.
        match trouble {
            Some(error @ SqlxError::Database(_)) => Err(error),
            _ => {
                let why = "none of the servers that the URL names takes writes";
                Err(SqlxError::Io(std::io::Error::other(why)))
            }
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
