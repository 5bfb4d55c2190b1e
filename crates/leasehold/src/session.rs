//! A session: our connection to a store and one lease, kept alive.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::config::{self, Config};
use crate::core::{Anchor, Core, Settings, Term};
use crate::engine::{Engine, Promises};
use crate::error::{Error, ErrorKind, Result};
use crate::inspector::Inspector;
use crate::lease;
use crate::multi::LockAll;
use crate::mutex::Mutex;
use crate::owner::Owner;
use crate::phase::Phase;
use crate::reaper::reaper;
use crate::reentrant::Reentrant;
use crate::rwlock::RwLock;
use crate::semaphore::Semaphore;
use crate::watchdog::{self, watchdog};

/// Connects to the store that the URL names and opens a session on it.
///
/// `sqlite:PATH` is a file that every process of this machine can share;
/// `memory:` lives in this process. Options follow a `?`: `ttl` (default 10 s),
/// `margin`, `patience`, `label`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
/// let session = leasehold::connect("memory:?ttl=5s").await?;
/// let guard = session.mutex("jobs/nightly").lock().await?;
/// println!("held with token {}", guard.token());
/// guard.release().await
/// # }
/// ```
///
/// Must be called in a tokio runtime with time and I/O enabled; the session's
/// two tasks run there.
///
/// # Errors
/// `Config` if the URL is wrong, `Unavailable` or `Denied` if the store is.
///
/// # Cancel safety
/// Dropping the future may leave a lease behind that ends after its ttl.
pub async fn connect(url: &str) -> Result<Session> {
    let config = Config::parse(url)?;
    let (engine, clock) = config.engine().await?;
    Session::start(
        engine,
        config.store.scheme(),
        clock,
        config.settings,
        config.label,
    )
    .await
}

/// Opens a session on the default store: `$LEASEHOLD_URL`, else the file
/// `leasehold/locks.db` in `$XDG_STATE_HOME` or `~/.local/state`, which all
/// processes of this user share.
///
/// # Errors
/// As for [`connect`].
///
/// # Cancel safety
/// As for [`connect`].
pub async fn open_default() -> Result<Session> {
    connect(&config::default_url()?).await
}

/// A connection to a store and one lease on it, kept alive by a watchdog.
///
/// Clones share it. When the last clone and the last guard are gone it closes
/// in the background; [`close`](Self::close) waits for that.
#[derive(Debug, Clone)]
pub struct Session {
    anchor: Arc<Anchor>,
}

impl Session {
    /// A session on an engine of your own.
    ///
    /// # Errors
    /// `Usage` if the ttl is out of bounds, else whatever the engine says.
    ///
    /// # Cancel safety
    /// As for [`connect`].
    pub async fn with_engine(engine: Arc<dyn Engine>, ttl: Duration) -> Result<Self> {
        let settings = Settings::checked(ttl, None, None)?;
        let clock = match engine.promises().reach {
            crate::Reach::Process => Clock::runtime(),
            crate::Reach::Machine | crate::Reach::Network => Clock::Boot,
        };
        Self::start(engine, "custom", clock, settings, String::new()).await
    }

    pub(crate) async fn start(
        engine: Arc<dyn Engine>,
        scheme: &'static str,
        clock: Clock,
        settings: Settings,
        label: String,
    ) -> Result<Self> {
        let owner = Owner::new(label);
        let (lease, lease_clock) = watchdog::open(&*engine, clock, &owner, settings).await?;
        let term = Term::new(lease, &lease_clock);
        let (errands, incoming) = mpsc::unbounded_channel();
        let core = Core::new(
            engine,
            scheme,
            clock,
            settings,
            owner,
            term.clone(),
            errands,
        );
        tokio::spawn(watchdog(core.clone(), term, lease_clock));
        tokio::spawn(reaper(core.clone(), incoming));
        let anchor = Arc::new(Anchor { core });
        Ok(Self { anchor })
    }

    /// A lock that one party holds at a time.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.anchor.clone(), name.as_ref())
    }

    /// A lock that many readers or one writer hold at a time.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.anchor.clone(), name.as_ref())
    }

    /// A lock with a number of permits. All parties must name the same number.
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.anchor.clone(), name.as_ref(), permits)
    }

    /// A mutex that its owner can enter again.
    pub fn reentrant(&self, name: impl AsRef<str>) -> Reentrant {
        Reentrant::new(self.mutex(name))
    }

    /// Several mutexes, all or none. Two callers that name the same locks in
    /// any order never deadlock.
    pub fn lock_all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> LockAll {
        LockAll::new(self.anchor.clone(), names)
    }

    /// What the store guarantees.
    pub fn promises(&self) -> Promises {
        self.anchor.core.promises
    }

    /// Who makes this session's claims.
    pub fn owner(&self) -> &Owner {
        &self.anchor.core.owner
    }

    /// How long the store keeps our claims without a renewal.
    pub fn ttl(&self) -> Duration {
        self.anchor.core.settings.ttl
    }

    /// How long before the store our guards count as lost.
    pub fn margin(&self) -> Duration {
        self.anchor.core.settings.margin
    }

    /// The store as people look at it: queues, names, findings.
    pub fn inspector(&self) -> Inspector {
        Inspector::new(self.anchor.core.engine.clone())
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.anchor.core
    }

    /// Resolves when the session has closed and everything is cleaned up.
    pub(crate) fn reaped(&self) -> impl Future<Output = ()> + Send + 'static {
        let errands = self.anchor.core.errands.clone();
        async move { errands.closed().await }
    }

    /// A copy of whatever tells the store that this process lives, for a helper
    /// process that must outlive it by a moment: the store takes the session
    /// for alive while a copy is open. `None` where the store cannot tell.
    #[cfg(unix)]
    pub fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        let core = &self.anchor.core;
        let Phase::Open(term) = core.phases.current() else {
            return None;
        };
        core.engine.lifeline(&term.lease)
    }

    /// Closes the session: everything it holds is given back, its guards are
    /// lost with `Closed`, its waits end. Returns when the store knows, or when
    /// the ttl has passed, after which the store has let go by itself.
    ///
    /// # Cancel safety
    /// Dropping the future lets the session close in the background.
    pub async fn close(self) {
        let (done, heard) = oneshot::channel();
        self.anchor.core.close(Some(done));
        // An error means that the session is closed already. The runtime that
        // the session lives on may be at a standstill, so we count ourselves.
        let _ = tokio::time::timeout(self.ttl(), heard).await;
    }
}

impl Settings {
    pub(crate) fn checked(
        ttl: Duration,
        margin: Option<Duration>,
        patience: Option<Duration>,
    ) -> Result<Self> {
        let wrong = |why: String| Error::new(ErrorKind::Usage, "read the settings", why);
        if ttl < lease::SHORTEST_TTL || ttl > lease::LONGEST_TTL {
            return Err(wrong(format!("ttl is {ttl:?}; allowed is 100ms to 1day")));
        }
        let margin = margin.unwrap_or_else(|| lease::default_margin(ttl));
        if margin > ttl / 2 {
            return Err(wrong(format!(
                "margin is {margin:?}; at most half of the ttl ({ttl:?}) is allowed"
            )));
        }
        let patience = patience.unwrap_or_else(|| ttl.max(Duration::from_secs(10)));
        Ok(Self {
            ttl,
            margin,
            patience,
        })
    }
}
