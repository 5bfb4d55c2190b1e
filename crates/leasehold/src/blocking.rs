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

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::fence::{Fence, Token};
use crate::guard::Lost;
use crate::owner::Owner;
use crate::promises::Promises;

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

/// A lock of the async API, blocked on.
#[derive(Debug, Clone)]
pub struct Blocking<T> {
    lock: T,
    engine_room: EngineRoom,
}

/// See [`crate::Mutex`].
pub type Mutex = Blocking<crate::Mutex>;
/// See [`crate::RwLock`].
pub type RwLock = Blocking<crate::RwLock>;
/// See [`crate::Semaphore`].
pub type Semaphore = Blocking<crate::Semaphore>;
/// See [`crate::Reentrant`].
pub type Reentrant = Blocking<crate::Reentrant>;
/// See [`crate::LockAll`].
pub type LockAll = Blocking<crate::LockAll>;

impl<T> Blocking<T> {
    fn guard(&self, work: impl Future<Output = Result<crate::Guard>>) -> Result<Guard> {
        let guard = self.engine_room.run(work)??;
        Ok(Guard {
            guard,
            engine_room: self.engine_room.clone(),
        })
    }

    fn tried(
        &self,
        work: impl Future<Output = Result<Option<crate::Guard>>>,
    ) -> Result<Option<Guard>> {
        let engine_room = self.engine_room.clone();
        let guard = self.engine_room.run(work)??;
        Ok(guard.map(|guard| Guard { guard, engine_room }))
    }
}

impl Mutex {
    /// Ends every hold after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Ends every hold with its `most`-th renewal.
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.lock = self.lock.max_renewals(most);
        self
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// As for [`crate::Mutex::lock`].
    pub fn lock(&self) -> Result<Guard> {
        self.guard(self.lock.lock())
    }

    /// Holds the lock if it is free.
    ///
    /// # Errors
    /// As for [`crate::Mutex::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        self.tried(self.lock.try_lock())
    }

    /// Waits for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Mutex::lock_within`].
    pub fn lock_within(&self, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.lock_within(longest))
    }
}

impl RwLock {
    /// Ends every hold after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Ends every hold with its `most`-th renewal.
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.lock = self.lock.max_renewals(most);
        self
    }

    /// Waits to read.
    ///
    /// # Errors
    /// As for [`crate::RwLock::read`].
    pub fn read(&self) -> Result<Guard> {
        self.guard(self.lock.read())
    }

    /// Reads if that is possible now.
    ///
    /// # Errors
    /// As for [`crate::RwLock::try_read`].
    pub fn try_read(&self) -> Result<Option<Guard>> {
        self.tried(self.lock.try_read())
    }

    /// Waits to read for at most this long.
    ///
    /// # Errors
    /// As for [`crate::RwLock::read_within`].
    pub fn read_within(&self, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.read_within(longest))
    }

    /// Waits to write.
    ///
    /// # Errors
    /// As for [`crate::RwLock::write`].
    pub fn write(&self) -> Result<Guard> {
        self.guard(self.lock.write())
    }

    /// Writes if that is possible now.
    ///
    /// # Errors
    /// As for [`crate::RwLock::try_write`].
    pub fn try_write(&self) -> Result<Option<Guard>> {
        self.tried(self.lock.try_write())
    }

    /// Waits to write for at most this long.
    ///
    /// # Errors
    /// As for [`crate::RwLock::write_within`].
    pub fn write_within(&self, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.write_within(longest))
    }
}

impl Semaphore {
    /// Ends every hold after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Ends every hold with its `most`-th renewal.
    #[must_use]
    pub fn max_renewals(mut self, most: u32) -> Self {
        self.lock = self.lock.max_renewals(most);
        self
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::acquire`].
    pub fn acquire(&self) -> Result<Guard> {
        self.guard(self.lock.acquire())
    }

    /// Waits for several permits.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::acquire_many`].
    pub fn acquire_many(&self, permits: u32) -> Result<Guard> {
        self.guard(self.lock.acquire_many(permits))
    }

    /// A permit if there is one now.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        self.tried(self.lock.try_acquire())
    }

    /// Several permits if there are that many now.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::try_acquire_many`].
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>> {
        self.tried(self.lock.try_acquire_many(permits))
    }

    /// Waits for several permits for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::acquire_many_within`].
    pub fn acquire_many_within(&self, permits: u32, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.acquire_many_within(permits, longest))
    }

    /// Waits for a permit for at most this long.
    ///
    /// # Errors
    /// As for [`crate::Semaphore::acquire_within`].
    pub fn acquire_within(&self, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.acquire_within(longest))
    }
}

impl Reentrant {
    /// Ends every hold after this time.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.lock = self.lock.max_hold(longest);
        self
    }

    /// Waits for the lock, or enters it again.
    ///
    /// # Errors
    /// As for [`crate::Reentrant::lock`].
    pub fn lock(&self, owner: &Owner) -> Result<Guard> {
        self.guard(self.lock.lock(owner))
    }

    /// Holds the lock if it is free or the owner holds it already.
    ///
    /// # Errors
    /// As for [`crate::Reentrant::try_lock`].
    pub fn try_lock(&self, owner: &Owner) -> Result<Option<Guard>> {
        self.tried(self.lock.try_lock(owner))
    }

    /// Waits for at most this long, or enters it again.
    ///
    /// # Errors
    /// As for [`crate::Reentrant::lock_within`].
    pub fn lock_within(&self, owner: &Owner, longest: Duration) -> Result<Guard> {
        self.guard(self.lock.lock_within(owner, longest))
    }
}

impl LockAll {
    /// Waits for all of them.
    ///
    /// # Errors
    /// As for [`crate::LockAll::lock`].
    pub fn lock(&self) -> Result<Guards> {
        let guards = self.engine_room.run(self.lock.lock())??;
        Ok(Guards {
            guards,
            engine_room: self.engine_room.clone(),
        })
    }

    /// Waits for all of them, for at most this long in all.
    ///
    /// # Errors
    /// As for [`crate::LockAll::lock_within`].
    pub fn lock_within(&self, longest: Duration) -> Result<Guards> {
        let guards = self.engine_room.run(self.lock.lock_within(longest))??;
        Ok(Guards {
            guards,
            engine_room: self.engine_room.clone(),
        })
    }

    /// Holds all of them if all are free now.
    ///
    /// # Errors
    /// As for [`crate::LockAll::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guards>> {
        let engine_room = self.engine_room.clone();
        let guards = self.engine_room.run(self.lock.try_lock())??;
        Ok(guards.map(|guards| Guards {
            guards,
            engine_room,
        }))
    }
}

/// A lock that is held; see [`crate::Guard`].
#[derive(Debug)]
#[must_use = "the lock is given back when the guard is dropped"]
pub struct Guard {
    guard: crate::Guard,
    engine_room: EngineRoom,
}

impl Guard {
    /// The lock's name.
    pub fn name(&self) -> &str {
        self.guard.name()
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// What to show to the resource this lock protects.
    pub fn fence(&self) -> Fence {
        self.guard.fence()
    }

    /// Whether the lock is still held, without I/O.
    ///
    /// # Errors
    /// As for [`crate::Guard::check`].
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// How long the lock is certainly held; see [`crate::Guard::valid_for`].
    pub fn valid_for(&self) -> Duration {
        self.guard.valid_for()
    }

    /// How long it took to get the lock.
    pub fn waited(&self) -> Duration {
        self.guard.waited()
    }

    /// How long the lock has been held.
    pub fn held(&self) -> Duration {
        self.guard.held()
    }

    /// Waits until the lock is lost and says why.
    ///
    /// # Errors
    /// `Usage` if called from async code.
    pub fn lost(&self) -> Result<Lost> {
        self.engine_room.run(self.guard.lost())
    }

    /// Gives the lock back; see [`crate::Guard::release`].
    ///
    /// # Errors
    /// As for [`crate::Guard::release`].
    pub fn release(self) -> Result<()> {
        self.engine_room.run(self.guard.release())?
    }
}

/// Guards of several locks; see [`crate::Guards`].
#[derive(Debug)]
#[must_use = "the locks are given back when the guards are dropped"]
pub struct Guards {
    guards: crate::Guards,
    engine_room: EngineRoom,
}

impl Guards {
    /// Whether all of them are still held, without I/O.
    ///
    /// # Errors
    /// The first loss.
    pub fn check(&self) -> Result<()> {
        self.guards.check()
    }

    /// The single guards, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &crate::Guard> {
        self.guards.iter()
    }

    /// Gives all of them back.
    ///
    /// # Errors
    /// The first error; the others are given back all the same.
    pub fn release(self) -> Result<()> {
        self.engine_room.run(self.guards.release())?
    }
}
