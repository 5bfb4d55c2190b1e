//! Where a case works: one store, as many sessions and processes as it wants.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::peer::Peer;
use super::wire::Wire;
use crate::config::Config;
use crate::engine::{Engine, Queue};
use crate::error::{ErrorKind, Result};
use crate::guard::Guard;
use crate::inspector::Inspector;
use crate::promises::Promises;
use crate::random::random_u64;
use crate::session::{Session, connect};

/// How long anything may take that is bound to happen. Machines are slow and
/// loaded; a case that fails waits this long, one that passes does not.
const PATIENCE: Duration = Duration::from_secs(120);

/// How much longer than a ttl something may take that waits for its end.
const ALLOWANCE: Duration = Duration::from_secs(20);

/// Makes an engine of your own from the text that names the store.
pub type MakeEngine = fn(String) -> Making;

/// An engine on its way.
pub type Making = Pin<Box<dyn Future<Output = Result<Arc<dyn Engine>>> + Send>>;

/// Where a case works: one store, as many sessions and processes as it wants.
#[derive(Debug, Clone)]
pub struct Bench {
    store: String,
    make: Option<MakeEngine>,
    /// Keeps a store alive that lives only as long as it is used.
    keeper: Arc<dyn Engine>,
    names: Arc<AtomicU64>,
}

impl Bench {
    /// A bench on the store that the URL names. The store should be empty, and
    /// the URL without a ttl.
    ///
    /// # Errors
    /// As for [`connect`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn new(url: &str) -> Result<Self> {
        let (keeper, _) = Config::parse(url)?.engine().await?;
        Ok(Self::with(url, None, keeper))
    }

    /// A bench on an engine of your own. Every session gets a new one; all that
    /// are made from the same text must share a store.
    ///
    /// # Errors
    /// Whatever the engine says.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn on_engine(store: &str, make: MakeEngine) -> Result<Self> {
        let keeper = make(store.to_owned()).await?;
        Ok(Self::with(store, Some(make), keeper))
    }

    fn with(store: &str, make: Option<MakeEngine>, keeper: Arc<dyn Engine>) -> Self {
        Self {
            store: store.to_owned(),
            make,
            keeper,
            names: Arc::new(AtomicU64::new(random_u64() >> 44)),
        }
    }

    /// What the engine guarantees.
    pub fn promises(&self) -> Promises {
        self.keeper.promises()
    }

    /// A new session, independent of all others.
    pub async fn session(&self, ttl: Duration) -> Session {
        open(&self.store, self.make, ttl)
            .await
            .expect("the store takes a session")
    }

    /// An engine of its own, without a session.
    pub async fn engine(&self) -> Arc<dyn Engine> {
        self.try_engine().await.expect("the store is there")
    }

    /// The same on a store that may be away.
    ///
    /// # Errors
    /// As for [`connect`].
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn try_engine(&self) -> Result<Arc<dyn Engine>> {
        match self.make {
            Some(make) => make(self.store.clone()).await,
            None => Ok(Config::parse(&self.store)?.engine().await?.0),
        }
    }

    /// A new session whose requests go over a wire that can be cut.
    pub async fn wired(&self, ttl: Duration) -> (Arc<Wire>, Session) {
        let wire = Wire::new(self.engine().await);
        let session = Session::with_engine(wire.clone(), ttl).await;
        (wire, session.expect("the store takes a session"))
    }

    /// The store as people look at it.
    pub fn inspector(&self) -> Inspector {
        Inspector::new(self.keeper.clone())
    }

    /// A name that nobody else uses.
    pub fn name(&self) -> String {
        format!("case/{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// A second process with a session of its own.
    pub async fn peer(&self, ttl: Duration) -> Peer {
        self.connected(Peer::start([]), ttl).await
    }

    /// A second process whose wall clock is off by so much, such as `+1h`.
    pub(super) async fn peer_at_another_time(&self, ttl: Duration, offset: &str) -> Peer {
        let library = super::clocks::faketime().expect("the package libfaketime is installed");
        let library = library.to_string_lossy().into_owned();
        let peer = Peer::start([
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME", offset),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]);
        self.connected(peer, ttl).await
    }

    async fn connected(&self, mut peer: Peer, ttl: Duration) -> Peer {
        let millis = ttl.as_millis();
        peer.tell(&format!("connect {millis} {}", self.store));
        assert_eq!(peer.answer().await, "ok");
        peer
    }

    /// How many of so many claims on one mutex the store shows. One that keeps
    /// no queue shows the holder.
    pub(super) fn shown(&self, claims: usize) -> usize {
        match self.promises().fair {
            true => claims,
            false => claims.min(1),
        }
    }

    /// The lock as the store shows it. One that does not answer for a moment is asked again.
    pub async fn queue(&self, name: impl AsRef<str>) -> Queue {
        let inspector = self.inspector();
        soon("the store answers", async {
            loop {
                match inspector.queue(name.as_ref()).await {
                    Ok(queue) => return queue,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }

    /// Waits until so many claims are in the lock's queue, as far as the store
    /// shows them.
    pub async fn queue_of(&self, name: &str, length: usize) {
        let length = self.shown(length);
        let has_it = || async { self.queue(name).await.claims.len() == length };
        until("the queue has the length", has_it).await;
    }
}

pub(super) async fn open(store: &str, make: Option<MakeEngine>, ttl: Duration) -> Result<Session> {
    match make {
        Some(make) => Session::with_engine(make(store.to_owned()).await?, ttl).await,
        None => {
            let join = if store.contains('?') { '&' } else { '?' };
            connect(&format!("{store}{join}ttl={}ms", ttl.as_millis())).await
        }
    }
}

/// The mutex, if it is free.
pub(super) async fn try_lock(session: &Session, name: &str) -> Option<Guard> {
    tried(|| async { session.mutex(name).try_lock().await }).await
}

/// The answer, which is bound to come.
pub(super) async fn soon<T>(what: &str, answer: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what}: not after {PATIENCE:?}"),
    }
}

/// What a try comes to. A store that does not answer for a moment is asked again.
pub(super) async fn tried<T, F>(attempt: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    soon("the store answers", async {
        loop {
            match attempt().await {
                Ok(tried) => return tried,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    })
    .await
}

/// The answer, which is bound to come once a lease of this ttl is over that nobody
/// renews from now on. A loaded machine may take some time more, but nothing that
/// waits for another lease, or for good, does.
pub(super) async fn when_over<T>(ttl: Duration, answer: impl Future<Output = T>) -> T {
    let longest = ttl + ALLOWANCE;
    match tokio::time::timeout(longest, answer).await {
        Ok(answer) => answer,
        Err(_) => panic!("in the way for longer than its ttl of {ttl:?}: {longest:?}"),
    }
}

/// Waits for a state that is bound to come.
pub(super) async fn until<F: Future<Output = bool>>(what: &str, is_there: impl Fn() -> F) {
    soon(what, async {
        while !is_there().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
