//! Servers that tests take in turn: starting one takes longer than most tests do.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{mem, ops, thread};

use tempfile::TempDir;

/// At most so many servers of a kind, started when they are needed.
pub struct Pool<T: 'static> {
    most: usize,
    /// Starts one in an empty folder.
    start: fn(&Path) -> T,
    /// Leaves nothing of what the last user did.
    wipe: fn(&T),
    servers: Mutex<Servers<T>>,
    given_back: Condvar,
}

struct Servers<T> {
    idle: Vec<(TempDir, T)>,
    /// Idle, lent or about to start.
    count: usize,
    is_listed: bool,
}

/// A server of the pool, given back when it is dropped.
pub struct Lent<T: Send + 'static> {
    pool: &'static Pool<T>,
    server: Option<(TempDir, T)>,
    /// Whether it may be lent again.
    is_fit: bool,
}

impl<T: Send + 'static> Pool<T> {
    pub const fn new(most: usize, start: fn(&Path) -> T, wipe: fn(&T)) -> Self {
        let servers = Servers {
            idle: Vec::new(),
            count: 0,
            is_listed: false,
        };
        Self {
            most,
            start,
            wipe,
            servers: Mutex::new(servers),
            given_back: Condvar::new(),
        }
    }

    /// An empty server, once there is one. A server that cannot start or cannot be emptied
    /// leaves its place to another.
    pub fn take(&'static self) -> Lent<T> {
        let mut lent = Lent {
            pool: self,
            server: self.idle_or_place(),
            is_fit: false,
        };
        if lent.server.is_none() {
            let folder = tempfile::tempdir().expect("there is room for a folder");
            let server = (self.start)(folder.path());
            lent.server = Some((folder, server));
        }
        (self.wipe)(&lent);
        lent.is_fit = true;
        lent
    }

    /// An idle server, or `None` and the right to start one.
    fn idle_or_place(&'static self) -> Option<(TempDir, T)> {
        let mut servers = self.servers();
        if !mem::replace(&mut servers.is_listed, true) {
            at_end(|| self.servers().idle.clear());
        }
        loop {
            if let Some(server) = servers.idle.pop() {
                return Some(server);
            }
            if servers.count < self.most {
                servers.count += 1;
                return None;
            }
            let waited = self.given_back.wait(servers);
            servers = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn servers(&self) -> MutexGuard<'_, Servers<T>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> ops::Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let (_, server) = self
            .server
            .as_ref()
            .expect("it is there until it is dropped");
        server
    }
}

impl<T: Send + 'static> Drop for Lent<T> {
    fn drop(&mut self) {
        let server = self.server.take();
        let mut servers = self.pool.servers();
        match server {
            // A test that failed may have left it stopped.
            Some(server) if self.is_fit && !thread::panicking() => servers.idle.push(server),
            _ => servers.count -= 1,
        }
        drop(servers);
        self.pool.given_back.notify_one();
    }
}

/// A server in a folder of its own, which is deleted after it has ended.
#[derive(Debug)]
pub struct Placed<T> {
    server: T,
    _folder: TempDir,
}

impl<T> Placed<T> {
    pub fn start(start: impl FnOnce(&Path) -> T) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        Self {
            server: start(folder.path()),
            _folder: folder,
        }
    }
}

impl<T> ops::Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.server
    }
}

impl<T> ops::DerefMut for Placed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.server
    }
}

/// One server for all tests that do not mind others beside them, started when the first of
/// them asks.
pub struct Shared<T: 'static> {
    start: fn(&Path) -> T,
    server: Mutex<Option<Arc<Placed<T>>>>,
}

impl<T: Send + Sync + 'static> Shared<T> {
    pub const fn new(start: fn(&Path) -> T) -> Self {
        Self {
            start,
            server: Mutex::new(None),
        }
    }

    pub fn get(&'static self) -> Arc<Placed<T>> {
        let mut server = self.server();
        let server = server.get_or_insert_with(|| {
            at_end(|| drop(self.server().take()));
            Arc::new(Placed::start(self.start))
        });
        server.clone()
    }

    fn server(&self) -> MutexGuard<'_, Option<Arc<Placed<T>>>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Closer = Box<dyn Fn() + Send>;

/// What ends the idle servers of each pool: statics are never dropped.
static CLOSERS: Mutex<Vec<Closer>> = Mutex::new(Vec::new());

fn at_end(close: impl Fn() + Send + 'static) {
    let mut closers = CLOSERS.lock().unwrap_or_else(PoisonError::into_inner);
    closers.push(Box::new(close));
}

pub(crate) fn end_all() {
    let mut closers = CLOSERS.lock().unwrap_or_else(PoisonError::into_inner);
    for close in closers.drain(..) {
        close();
    }
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static STARTS: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn a_failed_start_or_wipe_leaves_its_place_to_another() {
        static POOL: Pool<usize> = Pool::new(
            1,
            |_| {
                let start = STARTS.fetch_add(1, Ordering::SeqCst);
                assert_ne!(start, 0, "the first does not start");
                start
            },
            |server| assert_ne!(*server, 1, "the second cannot be wiped"),
        );
        for _ in 0..2 {
            assert!(panic::catch_unwind(|| *POOL.take()).is_err());
        }
        let third = POOL.take();
        assert_eq!(*third, 2);
        drop(third);
        assert_eq!(*POOL.take(), 2, "it is lent again");
    }
}
