//! The connection that listens: one for all sessions of an engine. It is made
//! anew when it breaks; until then, and where there can be none, those who wait
//! look by themselves.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::inbox::Inbox;
use super::lock;
use super::route::Route;
use super::text::{bits, column};
use crate::backoff;
use crate::clock::{Moment, boot_time};
use crate::engine::LeaseId;
use crate::random::random_u64;

/// A setting that a connection brings along. Poolers do not pass it on, and so
/// a server that knows it is at the other end. Behind a pooler a connection must
/// not listen: whoever gets it next would hear what is not for him.
const DIRECT: (&str, &str) = ("leasehold.direct", "yes");
/// How long a connection may be silent before it is asked whether it lives.
const SILENCE: Duration = Duration::from_secs(3);
/// How long connecting may take, and an answer.
const LIMIT: Duration = Duration::from_secs(3);

/// The channel of a session; `sql/common.sql` knows it too.
pub(super) fn channel(lease: LeaseId) -> String {
    format!("leasehold_{:032x}", lease.0)
}

fn lease_of(channel: &str) -> Option<LeaseId> {
    bits(channel.strip_prefix("leasehold_")?).map(LeaseId)
}

/// What listens.
pub(super) struct Ears {
    route: Arc<Route>,
    connection: tokio::sync::Mutex<Option<Connection>>,
    /// The leases that are listened for.
    leases: Mutex<HashSet<LeaseId>>,
    is_listening: AtomicBool,
    /// When the connection last proved that it lives.
    proven: Mutex<Moment>,
    failures: Mutex<u32>,
}

impl Ears {
    pub(super) fn new(route: Arc<Route>) -> Self {
        Self {
            route,
            connection: tokio::sync::Mutex::default(),
            leases: Mutex::default(),
            is_listening: AtomicBool::new(false),
            proven: Mutex::new(boot_time()),
            failures: Mutex::default(),
        }
    }

    /// Listens for a lease from here on, if that is possible now; later if not.
    pub(super) async fn add(&self, lease: LeaseId) {
        lock(&self.leases).insert(lease);
        let mut connection = self.connection.lock().await;
        match &mut *connection {
            Some(open) => {
                if !open.listen(&[lease]).await {
                    self.lose(&mut connection);
                }
            }
            None => *connection = self.connect().await,
        }
    }

    fn lose(&self, connection: &mut Option<Connection>) {
        self.is_listening.store(false, Ordering::Release);
        *connection = None;
    }

    pub(super) async fn remove(&self, lease: LeaseId) {
        lock(&self.leases).remove(&lease);
        if let Ok(mut connection) = self.connection.try_lock()
            && let Some(open) = &mut *connection
            && !open.forget(lease).await
        {
            self.lose(&mut connection);
        }
    }

    /// Whether messages get through, as far as is known.
    pub(super) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Acquire)
    }

    /// Takes in messages, for ever.
    ///
    /// # Cancel safety
    /// A message that has not been taken in is kept.
    pub(super) async fn listen(&self, inbox: &Inbox) {
        let mut connection = self.connection.lock().await;
        loop {
            let Some(open) = &mut *connection else {
                self.pause().await;
                *connection = self.connect().await;
                if connection.is_some() {
                    inbox.missed();
                }
                continue;
            };
            match self.next(open).await {
                Some((lease, message)) => inbox.hear(lease, &message),
                None => {
                    self.lose(&mut connection);
                    inbox.missed();
                }
            }
        }
    }

    /// The next message; `None` if the connection is broken.
    async fn next(&self, open: &mut Connection) -> Option<(LeaseId, String)> {
        loop {
            let silent = boot_time().since(*lock(&self.proven));
            let listener = open.listener.as_mut()?;
            match timeout(SILENCE.saturating_sub(silent), listener.try_recv()).await {
                Ok(Ok(Some(message))) => {
                    *lock(&self.proven) = boot_time();
                    if let Some(lease) = lease_of(message.channel()) {
                        return Some((lease, message.payload().to_owned()));
                    }
                }
                Ok(Ok(None) | Err(_)) => return None,
                Err(_) => {
                    let asked = listener.execute(raw_sql("select 1"));
                    if !matches!(timeout(LIMIT, asked).await, Ok(Ok(_))) {
                        return None;
                    }
                    *lock(&self.proven) = boot_time();
                }
            }
        }
    }

    async fn connect(&self) -> Option<Connection> {
        let making = async {
            // The one that took writes may be gone without a word.
            self.route.settle().await;
            Connection::new(&self.route.options()).await
        };
        let mut made = timeout(LIMIT, making).await.ok().flatten();
        let leases: Vec<_> = lock(&self.leases).iter().copied().collect();
        let is_well = match &mut made {
            Some(open) => open.listen(&leases).await,
            None => false,
        };
        *lock(&self.proven) = boot_time();
        self.is_listening.store(is_well, Ordering::Release);
        let failures = &mut *lock(&self.failures);
        *failures = if is_well { 0 } else { *failures + 1 };
        made.filter(|_| is_well)
    }

    async fn pause(&self) {
        let failures = *lock(&self.failures);
        if failures > 0 {
            let (first, longest) = (Duration::from_millis(20), Duration::from_secs(5));
            tokio::time::sleep(backoff::pause(failures, first, longest, random_u64())).await;
        }
    }
}

/// A connection that listens.
pub(super) struct Connection {
    /// There until it is dropped.
    listener: Option<PgListener>,
    /// Where it was made.
    runtime: Handle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The client says goodbye in a task, and a session may be dropped where
        // there is no runtime.
        let _context = self.runtime.enter();
        drop(self.listener.take());
    }
}

impl Connection {
    async fn new(options: &PgConnectOptions) -> Option<Self> {
        let mut made = Self::open(options).await.ok()?;
        made.is_direct().await.then_some(made)
    }

    pub(super) async fn open(options: &PgConnectOptions) -> Result<Self, SqlxError> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .test_before_acquire(false)
            .connect_lazy_with(options.clone().options([DIRECT]));
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.ignore_pool_close_event(true);
        Ok(Self {
            listener: Some(listener),
            runtime: Handle::current(),
        })
    }

    /// Whether there is no pooler between.
    pub(super) async fn is_direct(&mut self) -> bool {
        let query = format!("select current_setting('{}', true)", DIRECT.0);
        let Some(listener) = &mut self.listener else {
            return false;
        };
        let answer = listener.fetch_one(raw_sql(AssertSqlSafe(query))).await;
        answer.is_ok_and(|row| column(&row, 0) == Some(DIRECT.1))
    }

    /// What listens. It makes a new connection by itself when it is used after
    /// it said that it lost one.
    pub(super) fn listener(&mut self) -> Option<&mut PgListener> {
        self.listener.as_mut()
    }

    pub(super) async fn listen(&mut self, leases: &[LeaseId]) -> bool {
        let Some(listener) = self.listener.as_mut().filter(|_| !leases.is_empty()) else {
            return leases.is_empty();
        };
        let channels: Vec<_> = leases.iter().map(|lease| channel(*lease)).collect();
        let listening = listener.listen_all(channels.iter().map(String::as_str));
        matches!(timeout(LIMIT, listening).await, Ok(Ok(())))
    }

    async fn forget(&mut self, lease: LeaseId) -> bool {
        let Some(listener) = &mut self.listener else {
            return false;
        };
        let channel = channel(lease);
        let forgetting = listener.unlisten(&channel);
        matches!(timeout(LIMIT, forgetting).await, Ok(Ok(())))
    }
}

impl fmt::Debug for Ears {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ears")
    }
}

/// Whether a message to ourselves comes back within a second.
pub(super) async fn gets_through(engine: &super::PostgresEngine) -> bool {
    let lease = LeaseId(crate::random::random_u128());
    let options = engine.ears.route.options();
    let Ok(Some(mut open)) = timeout(LIMIT, Connection::new(&options)).await else {
        return false;
    };
    if !open.listen(&[lease]).await {
        return false;
    }
    let message = format!("select pg_notify('{}', '')", channel(lease));
    if engine
        .pool
        .ask(&message, || "examine".into())
        .await
        .is_err()
    {
        return false;
    }
    let Some(listener) = &mut open.listener else {
        return false;
    };
    let heard = timeout(Duration::from_secs(1), listener.try_recv()).await;
    matches!(heard, Ok(Ok(Some(_))))
}
