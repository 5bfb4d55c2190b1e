//! Running work in the database: in line while nobody is in the way, in a
//! blocking thread otherwise, and never for longer than a request may take.
//!
//! A statement takes some ten microseconds, less than handing it to a thread
//! and back, so the calling task runs it. No lock is kept over an await.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use rusqlite::Connection;
use rustix::fd::OwnedFd;

use super::fault::Fault;
use super::file::{Identity, StoreFile};
use super::inbox::{Ours, lock};
use super::layout;
use super::live::{self, Liveness, Watchlist};
use super::log::{self, Log};
use crate::clock;
use crate::engine::LeaseId;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// How long a request may be held up by others.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// How long a thread tries before it asks whether anybody still wants the
/// answer.
const SPELL: Duration = Duration::from_millis(10);

/// One open database file and all that this engine knows about it.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) file: StoreFile,
    pub(super) boot: String,
    pub(super) ours: Ours,
    pub(super) watchlist: Watchlist,
    identity: Identity,
    index: Identity,
    handle: OwnedFd,
    connection: Mutex<Connection>,
    log: Log,
}

/// What is being done, for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doing<'a>(pub(super) &'a str, pub(super) Option<&'a Name>);

impl Doing<'_> {
    fn text(self) -> String {
        match self.1 {
            Some(name) => format!("{} {name}", self.0),
            None => self.0.to_owned(),
        }
    }
}

impl Store {
    /// Opens the store at the path, making it if it is missing.
    pub(super) fn open(path: &std::path::Path, boot: &str) -> Result<Self, Fault> {
        let file = StoreFile::prepare(path)?;
        let identity = |file: &StoreFile| {
            let named = file.identity();
            named.map_err(|errno| Fault::system(file.path.display(), errno))
        };
        let before = identity(&file)?;
        let connection = layout::open(&file, boot)?;
        // Somebody who puts another file here meanwhile is rare, and an
        // overlay file system does it itself when a file is first written.
        if identity(&file)? != before {
            return Err(Fault::Busy);
        }
        let index = file.index_identity();
        let index = index.map_err(|errno| Fault::system(file.path.display(), errno))?;
        let handle = file.handle()?;
        let log = Log::new(file.log());
        Ok(Self {
            file,
            boot: boot.to_owned(),
            ours: Ours::default(),
            watchlist: Watchlist::default(),
            identity: before,
            index,
            handle,
            connection: Mutex::new(connection),
            log,
        })
    }

    /// Whether the file that has the store's name is still the one we opened.
    /// Somebody may have deleted it, and others may already use a new one. They
    /// do too if only SQLite's own files beside it were deleted.
    pub(super) fn is_in_place(&self) -> bool {
        self.file.identity() == Ok(self.identity) && self.file.index_identity() == Ok(self.index)
    }

    /// The file is ours, but what SQLite has open beside it is not what others
    /// find there. All connections of a process share that, so a new one would
    /// not help.
    pub(super) fn has_lost_its_log(&self) -> bool {
        self.file.identity() == Ok(self.identity) && !self.is_in_place()
    }

    /// Whether the file we opened still has a name. Quicker to ask than whether
    /// that is the store's, which every renewal asks.
    pub(super) fn has_a_name(&self) -> bool {
        rustix::fs::fstat(&self.handle).is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// Whether the kernel says that the session's process is gone. A session of
    /// our own is not asked about.
    pub(super) fn is_process_gone(&self, session: LeaseId) -> bool {
        self.ours.lease(session).is_none()
            && live::liveness(&self.file.sessions, session) == Liveness::Dead
    }

    pub(super) fn label(&self) -> String {
        format!("sqlite {}", self.file.path.display())
    }

    pub(super) fn error(&self, doing: Doing<'_>, fault: Fault) -> Error {
        fault.into_error(doing.text(), self.label())
    }

    /// Runs the work, again from its start whenever the database is busy. The
    /// work must have no effect before its transaction is committed.
    pub(super) async fn run<T, W>(self: &Arc<Self>, doing: Doing<'_>, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: Fn(&Self, &Connection) -> Result<T, Fault> + Send + 'static,
    {
        // Work done in line never waits, so a loop of it would let no other task
        // of its thread run, not even the one that renews. Before the work: a
        // caller that gives up here has asked for nothing.
        tokio::task::consume_budget().await;
        let outcome = match self.attempt(&work) {
            Err(Fault::Busy) => self.insist(work).await,
            outcome => outcome,
        };
        self.tend_log();
        outcome.map_err(|fault| self.error(doing, fault))
    }

    fn attempt<T>(
        &self,
        work: impl Fn(&Self, &Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let connection = match self.connection.try_lock() {
            Ok(connection) => connection,
            // A transaction that a panic broke off was rolled back on the way.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Fault::Busy),
        };
        work(self, &connection)
    }

    async fn insist<T, W>(self: &Arc<Self>, mut work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: Fn(&Self, &Connection) -> Result<T, Fault> + Send + 'static,
    {
        let deadline = clock::boot_time() + REQUEST_LIMIT;
        let wanted = Wanted::default();
        loop {
            let (store, is_wanted) = (self.clone(), wanted.0.clone());
            let spell = tokio::task::spawn_blocking(move || {
                let outcome = insist_for_a_spell(|| {
                    let connection = lock(&store.connection);
                    // Asked while the connection is ours: if the answer is yes,
                    // whatever the caller does next comes after this attempt. So
                    // a claim that is withdrawn never comes back.
                    if is_wanted.load(Ordering::SeqCst) {
                        work(&store, &connection)
                    } else {
                        Err(Fault::Busy)
                    }
                });
                (work, outcome)
            });
            match spell.await {
                Ok((back, Err(Fault::Busy))) if clock::boot_time() < deadline => work = back,
                Ok((_, outcome)) => return outcome,
                Err(_) => return Err(shutting_down()),
            }
        }
    }

    /// Begins a transaction that writes.
    pub(super) fn begin<'c>(&self, connection: &'c Connection) -> Result<Write<'c>, Fault> {
        if self.log.is_in_the_way() {
            log::checkpoint(connection)?;
        }
        connection.prepare_cached("begin immediate")?.execute([])?;
        Ok(Write {
            connection,
            is_open: true,
        })
    }

    /// Commits; only from here on may anybody be told of it.
    pub(super) fn commit(&self, mut write: Write<'_>) -> Result<(), Fault> {
        let commit = write.connection.prepare_cached("commit")?.execute([]);
        commit.map_err(|error| Fault::from(error).in_doubt())?;
        write.is_open = false;
        self.log.grew();
        Ok(())
    }

    /// Returns when all that is committed so far survives a power loss. It is in
    /// the log until a checkpoint, which syncs both the log and the database,
    /// has brought it into the database.
    pub(super) async fn sync_log(self: &Arc<Self>, doing: Doing<'_>) -> Result<()> {
        let store = self.clone();
        let syncing = tokio::task::spawn_blocking(move || {
            let path = store.file.log();
            let synced = std::fs::File::open(&path).and_then(|log| log.sync_data());
            let failed = |error: std::io::Error| {
                let errno = rustix::io::Errno::from_io_error(&error);
                Fault::system(path.display(), errno.unwrap_or(rustix::io::Errno::IO))
            };
            synced.map_err(failed)?;
            match store.is_in_place() {
                true => Ok(()),
                false => Err(Fault::new(
                    ErrorKind::Unavailable,
                    "somebody removed the store's files",
                )),
            }
        });
        let synced = syncing.await.unwrap_or_else(|_| Err(shutting_down()));
        synced.map_err(|fault| self.error(doing, fault.in_doubt()))
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Lets a blocking thread bring a long log into the database, on a
    /// connection of its own so that nobody waits for the disk.
    fn tend_log(self: &Arc<Self>) {
        if !self.log.is_due() {
            return;
        }
        let store = self.clone();
        tokio::task::spawn_blocking(move || {
            // A failure leaves the log as it is; the next look tries again.
            let _ = layout::connect(&store.file).and_then(|own| log::checkpoint(&own));
        });
    }
}

fn shutting_down() -> Fault {
    Fault::new(ErrorKind::Unavailable, "the runtime is shutting down").in_doubt()
}

/// Says to a thread whether anybody still waits for its answer.
#[derive(Debug)]
struct Wanted(Arc<AtomicBool>);

impl Default for Wanted {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Tries with short naps in between, for a blocking thread.
pub(super) fn insist_for_a_spell<T>(
    mut attempt: impl FnMut() -> Result<T, Fault>,
) -> Result<T, Fault> {
    let end = clock::boot_time() + SPELL;
    let mut nap = Duration::from_micros(50);
    loop {
        let outcome = attempt();
        if !matches!(outcome, Err(Fault::Busy)) || clock::boot_time() >= end {
            return outcome;
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(1));
    }
}

/// Opens the store, however long others keep it busy within reason.
pub(super) async fn open_store(path: std::path::PathBuf, boot: Option<String>) -> Result<Store> {
    let label = format!("sqlite {}", path.display());
    let opening = tokio::task::spawn_blocking(move || {
        let boot = boot.map_or_else(layout::boot_id, Ok)?;
        let deadline = clock::boot_time() + REQUEST_LIMIT;
        loop {
            match insist_for_a_spell(|| Store::open(&path, &boot)) {
                Err(Fault::Busy) if clock::boot_time() < deadline => {}
                outcome => return outcome,
            }
        }
    });
    match opening.await {
        Ok(outcome) => outcome.map_err(|fault| fault.into_error("connect", label)),
        Err(_) => Err(shutting_down().into_error("connect", label)),
    }
}

/// A transaction that writes; rolled back unless it is committed.
#[derive(Debug)]
pub(super) struct Write<'c> {
    pub(super) connection: &'c Connection,
    is_open: bool,
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        // Some failures have rolled back already; the connection knows.
        if self.is_open && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("rollback");
        }
    }
}
