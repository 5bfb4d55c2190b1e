//! Free ports for servers: one table per machine, so that programs that run beside each
//! other never give the same port to two servers.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{env, process};

/// Below the ports that the system gives to outgoing connections, so that none
/// of those sits on the port of a server that is down for a moment.
const PORTS: Range<u16> = 11_000..21_000;

/// A node of a cluster listens on its port and on this much more.
const BUS: u16 = 10_000;

/// A port that is free, as is the one for the bus of a cluster. No other process of this
/// machine gets it from here while this one runs, also while the server is down.
pub fn free_port() -> u16 {
    let table = Table::open();
    let count = u64::from(PORTS.end - PORTS.start);
    for _ in 0..1_000 {
        let random = RandomState::new().hash_one(()) % count;
        let port = PORTS.start + u16::try_from(random).expect("it is less than the count");
        if !table.is_given(port) && is_free(port) && is_free(port + BUS) {
            table.give(port);
            return port;
        }
    }
    panic!("there is no free port in {PORTS:?}");
}

/// A folder with a file per port, which names the process that has it.
struct Table {
    folder: PathBuf,
    /// Held while this process reads and writes the table.
    _lock: File,
}

impl Table {
    fn open() -> Self {
        // Those of another user could not be written.
        let user = rustix::process::getuid().as_raw();
        let folder = env::temp_dir().join(format!("leasehold-test-ports-{user}"));
        let lock = fs::create_dir_all(&folder)
            .and_then(|()| File::create(folder.join("lock")))
            .and_then(|lock| lock.lock().map(|()| lock));
        match lock {
            Ok(lock) => Self {
                folder,
                _lock: lock,
            },
            Err(error) => panic!("the table of ports, {}: {error}", folder.display()),
        }
    }

    /// Whether a process that still runs has it.
    fn is_given(&self, port: u16) -> bool {
        let owner = fs::read_to_string(self.file(port)).unwrap_or_default();
        !owner.is_empty() && Path::new("/proc").join(owner).exists()
    }

    fn give(&self, port: u16) {
        let written = fs::write(self.file(port), process::id().to_string());
        written.expect("the table of ports can be written");
    }

    fn file(&self, port: u16) -> PathBuf {
        self.folder.join(port.to_string())
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let give = || (0..50).map(|_| free_port()).collect::<Vec<_>>();
        let givers: Vec<_> = (0..4).map(|_| thread::spawn(give)).collect();
        let given = givers.into_iter().flat_map(|giver| giver.join().unwrap());
        assert_eq!(given.collect::<BTreeSet<_>>().len(), 200);
    }

    #[test]
    fn the_port_of_a_process_that_has_ended_is_given_again() {
        let table = Table::open();
        let port = 21_000;
        table.give(port);
        assert!(table.is_given(port));
        // Larger than any process id.
        fs::write(table.file(port), "4194305").unwrap();
        assert!(!table.is_given(port));
    }
}
