//! Who is alive. Each session keeps a pipe open and locked for its life; the
//! kernel lets go of both when the process ends, however it ends.
//!
//! Opening a dead session's pipe never reports its end, only a pipe that was
//! open before does. So whoever watches opens first and asks for the lock then.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::unix::pipe;

use super::fault::Fault;
use super::file::StoreFile;
use crate::engine::LeaseId;
use crate::error::ErrorKind;

/// How many seconds a pipe may go without its lock while it is made.
const LONGEST_BIRTH: u64 = 60;

/// How many sessions are watched at once: descriptors are few.
const WATCHED_AT_ONCE: usize = 64;

/// What the pipe says about a session's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    /// Somebody has it open and locked.
    Alive,
    /// The process is gone.
    Dead,
    /// The pipe cannot be asked; the lease's end decides.
    Unknown,
}

pub(super) fn live_path(sessions: &Path, lease: LeaseId) -> PathBuf {
    sessions.join(format!("{:032x}.live", lease.0))
}

/// The pipe's name while it is made.
pub(super) fn unborn_path(sessions: &Path, lease: LeaseId) -> PathBuf {
    sessions.join(format!("{:032x}.new", lease.0))
}

/// Makes the session's pipe and takes its lock. It gets its name when it is
/// locked, so that nobody ever finds it unlocked while we live.
pub(super) fn go_live(file: &StoreFile, lease: LeaseId) -> Result<OwnedFd, Fault> {
    let unborn = unborn_path(&file.sessions, lease);
    let path = live_path(&file.sessions, lease);
    let failed = |errno| Fault::system(path.display(), errno);
    let why = "the session's files were removed while they were made; try again";
    let mut last = Fault::new(ErrorKind::Unavailable, why);
    for _ in 0..3 {
        if let Err(fault) = file.make_pipe(&unborn) {
            // Perhaps it was removed as below, only sooner.
            last = fault;
            continue;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let born = rustix::fs::open(&unborn, flags, Mode::empty()).and_then(|live| {
            rustix::fs::flock(&live, FlockOperation::NonBlockingLockExclusive)?;
            rustix::fs::rename(&unborn, &path)?;
            Ok(live)
        });
        match born {
            Ok(live) => return Ok(live),
            // We were so slow that a sweep took it for left over.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Err(last)
}

/// Whether files without a session are of no use to anybody. A pipe that is
/// being made goes from its first name to its second, so asking for them in this
/// order misses it under neither.
pub(super) fn is_left_over(sessions: &Path, lease: LeaseId) -> bool {
    let unborn = rustix::fs::stat(unborn_path(sessions, lease)).map(drop);
    let is_free = |path: PathBuf| match open_to_watch(&path) {
        Ok(pipe) => lock_says(&pipe) == Liveness::Dead,
        Err(errno) => errno == Errno::NOENT,
    };
    unborn == Err(Errno::NOENT) && is_free(live_path(sessions, lease))
}

/// Removes a pipe that its maker left before it was locked. Nobody asks a young
/// one for its lock, which would keep its maker from taking it; a maker who was
/// only slow finds it gone and makes another.
pub(super) fn remove_unborn(sessions: &Path, lease: LeaseId, wall: Duration) {
    let unborn = unborn_path(sessions, lease);
    let made = rustix::fs::stat(&unborn).map(|stat| stat.st_ctime);
    let is_old = |made: i64| wall.as_secs() > made.unsigned_abs().saturating_add(LONGEST_BIRTH);
    if made.is_ok_and(is_old) {
        let _ = rustix::fs::unlink(unborn);
    }
}

pub(super) fn liveness(sessions: &Path, lease: LeaseId) -> Liveness {
    match open_to_watch(&live_path(sessions, lease)) {
        Ok(pipe) => lock_says(&pipe),
        Err(_) => Liveness::Unknown,
    }
}

fn open_to_watch(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, Mode::empty())
}

fn lock_says(pipe: impl AsFd) -> Liveness {
    // Asking for a shared lock lets any number ask at the same moment without
    // taking each other for the session.
    match rustix::fs::flock(&pipe, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = rustix::fs::flock(&pipe, FlockOperation::Unlock);
            Liveness::Dead
        }
        Err(Errno::WOULDBLOCK) => Liveness::Alive,
        Err(_) => Liveness::Unknown,
    }
}

/// Another session's pipe, open to see its end.
#[derive(Debug)]
pub(super) struct Watched(pipe::Receiver);

impl Watched {
    pub(super) fn liveness(&self) -> Liveness {
        lock_says(&self.0)
    }

    /// Returns when the session's process has ended.
    pub(super) async fn ended(&self) {
        while let Ok(ready) = self.0.ready(Interest::READABLE).await {
            if ready.is_read_closed() {
                return;
            }
            // Only a stranger writes here. Reading it away is what makes the
            // next wait wait.
            let _ = self.0.try_read(&mut [0; 64]);
        }
        // The runtime is shutting down; there is nothing left to tell.
        std::future::pending::<()>().await;
    }
}

/// The sessions that are being watched, each by one descriptor however many
/// claims wait for it.
#[derive(Debug, Default)]
pub(super) struct Watchlist(Mutex<HashMap<LeaseId, Weak<Watched>>>);

impl Watchlist {
    /// `None` if the session's pipe cannot be opened or too many are; the lease's
    /// end and the poll are left then.
    pub(super) fn watch(&self, sessions: &Path, lease: LeaseId) -> Option<Arc<Watched>> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = watched.get(&lease).and_then(Weak::upgrade) {
            return Some(pipe);
        }
        watched.retain(|_, pipe| pipe.strong_count() > 0);
        if watched.len() >= WATCHED_AT_ONCE {
            return None;
        }
        let pipe = open_to_watch(&live_path(sessions, lease)).ok()?;
        let pipe = Arc::new(Watched(pipe::Receiver::from_owned_fd(pipe).ok()?));
        watched.insert(lease, Arc::downgrade(&pipe));
        Some(pipe)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched
            .values()
            .filter(|pipe| pipe.strong_count() > 0)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_tells_when_the_last_copy_of_a_pipe_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let file = StoreFile::prepare(&folder.path().join("locks.db")).unwrap();
        let lease = LeaseId(7);
        let live = go_live(&file, lease).unwrap();
        let copy = rustix::io::fcntl_dupfd_cloexec(&live, 3).unwrap();
        let watchlist = Watchlist::default();
        let (one, two) = (
            watchlist.watch(&file.sessions, lease).unwrap(),
            watchlist.watch(&file.sessions, lease).unwrap(),
        );
        assert!(Arc::ptr_eq(&one, &two), "one descriptor serves all");
        drop(live);
        assert_eq!(one.liveness(), Liveness::Alive);
        let both = async { tokio::join!(one.ended(), two.ended()) };
        let mut both = std::pin::pin!(both);
        // Nothing happens while the copy is open.
        assert!(poll_once(both.as_mut()).is_none());
        drop(copy);
        tokio::time::timeout(Duration::from_secs(20), both)
            .await
            .expect("both are told");
        assert_eq!(liveness(&file.sessions, lease), Liveness::Dead);
        // One that comes later is never told, so it has to ask.
        assert_eq!(liveness(&file.sessions, LeaseId(8)), Liveness::Unknown);
    }

    fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
