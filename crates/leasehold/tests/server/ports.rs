//! Free ports for servers.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Below the ports that the system gives to outgoing connections, so that none
/// of those sits on the port of a server that is down for a moment.
const PORTS: Range<u16> = 11_000..21_000;

/// A node of a cluster listens on its port and on this much more.
const BUS: u16 = 10_000;

/// What was given to a server that may not listen yet. Two servers with one port
/// would be one, until it ends for the one who started it.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that is free, as is the one for the bus of a cluster. Nobody else in this
/// process gets it.
pub(crate) fn free_port() -> u16 {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let count = u64::from(PORTS.end - PORTS.start);
    for _ in 0..1_000 {
        let random = RandomState::new().hash_one(()) % count;
        let port = PORTS.start + u16::try_from(random).expect("it is less than the count");
        if !given.contains(&port) && is_free(port) && is_free(port + BUS) {
            given.insert(port);
            return port;
        }
    }
    panic!("there is no free port in {PORTS:?}");
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
