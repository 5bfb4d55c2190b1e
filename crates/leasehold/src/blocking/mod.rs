//! The same API for programs without async: the same names, the same code.
//!
//! ```
//! let session = leasehold::blocking::connect("memory:")?;
//! let guard = session.mutex("jobs/nightly").lock()?;
//! println!("held with token {}", guard.token());
//! guard.release()?;
//! # Ok::<(), leasehold::Error>(())
//! ```
//!
//! Every session has a thread of its own on which its lease is kept alive. Do
//! not call this from async code; that is refused with an error.

pub mod dedupe;
pub mod election;
mod guard;
mod locks;
pub mod once;
mod recipes;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::owner::Owner;
use crate::promises::Promises;

pub use guard::{Guard, Guards};
pub use locks::{Blocking, LockAll, Mutex, Reentrant, RwLock, Semaphore};
pub use recipes::{Barrier, Entered, Latch};

/// Connects to the store that the URL names; see [`crate::connect`].
///
/// # Errors
/// As for [`crate::connect`].
pub fn connect(url: &str) -> Result<Session> {
    EngineRoom::refuse_async()?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("leasehold")
        .enable_all()
        .build()
        .map_err(no_thread)?;
    let session = runtime.block_on(crate::connect(url))?;
    let engine_room = EngineRoom::start(runtime, session.reaped())?;
    Ok(Session {
        session,
        engine_room,
    })
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "connect", "cannot start a thread").from_source(error)
}

/// Opens a session on the default store; see [`crate::open_default`].
///
/// # Errors
/// As for [`crate::open_default`].
pub fn open_default() -> Result<Session> {
    connect(&crate::default_url()?)
}

/// The threads on which a session's watchdog and reaper live, for as long as
/// somebody has a handle to them.
#[derive(Debug, Clone)]
struct EngineRoom {
    runtime: Handle,
    _in_use: Arc<oneshot::Sender<()>>,
}

impl EngineRoom {
    /// Keeps the runtime on a thread of its own, which may end it: a runtime
    /// must not be dropped by async code, and not before the reaper is done.
    fn start(runtime: Runtime, reaped: impl Future<Output = ()> + Send + 'static) -> Result<Self> {
        let handle = runtime.handle().clone();
        let (in_use, unused) = oneshot::channel();
        std::thread::Builder::new()
            .name("leasehold-keeper".into())
            .spawn(move || {
                runtime.block_on(async {
                    let _ = unused.await;
                    reaped.await;
                });
            })
            .map_err(no_thread)?;
        Ok(Self {
            runtime: handle,
            _in_use: Arc::new(in_use),
        })
    }

    fn refuse_async() -> Result<()> {
        if Handle::try_current().is_err() {
            return Ok(());
        }
        let why = "the blocking API was called from async code; use the async one";
        Err(Error::new(ErrorKind::Usage, "block on a lock", why))
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        Self::refuse_async()?;
        Ok(self.runtime.block_on(work))
    }
}

/// A session; see [`crate::Session`].
#[derive(Debug, Clone)]
pub struct Session {
    session: crate::Session,
    engine_room: EngineRoom,
}

impl Session {
    /// A lock that one party holds at a time.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        self.with(self.session.mutex(name))
    }

    /// A lock that many readers or one writer hold at a time.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        self.with(self.session.rwlock(name))
    }

    /// A lock with a number of permits.
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        self.with(self.session.semaphore(name, permits))
    }

    /// A mutex that its owner can enter again.
    pub fn reentrant(&self, name: impl AsRef<str>) -> Reentrant {
        self.with(self.session.reentrant(name))
    }

    /// Several mutexes, all or none.
    pub fn lock_all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> LockAll {
        self.with(self.session.lock_all(names))
    }

    /// What the store guarantees.
    pub fn promises(&self) -> Promises {
        self.session.promises()
    }

    /// Who makes this session's claims.
    pub fn owner(&self) -> &Owner {
        self.session.owner()
    }

    /// How long the store keeps our claims without a renewal.
    pub fn ttl(&self) -> Duration {
        self.session.ttl()
    }

    /// Closes the session; see [`crate::Session::close`].
    ///
    /// # Errors
    /// `Usage` if called from async code.
    pub fn close(self) -> Result<()> {
        self.engine_room.run(self.session.close())
    }

    fn with<T>(&self, lock: T) -> Blocking<T> {
        Blocking {
            lock,
            engine_room: self.engine_room.clone(),
        }
    }
}
