//! What a run stands on: a store, with servers that can be broken.

mod etcd;
mod mysql;
mod postgres;
mod redis;
mod sqlite;
mod zookeeper;

use std::path::Path;

use crate::story::Error;

/// A store under test.
pub trait Ground: std::fmt::Debug {
    /// The ports of its servers; none if it has none.
    fn ports(&self) -> Vec<u16>;

    /// Its URL for a worker that reaches its servers on these ports.
    fn url(&self, ports: &[u16], ttl_millis: u64) -> String;

    /// Kills a server with SIGKILL.
    fn kill(&mut self, server: usize);

    /// Starts a killed server again.
    fn start_again(&mut self, server: usize);

    /// Takes away what a killed server had on disk. Gives whether that can be
    /// done without breaking what the store asks of its operator.
    fn forget(&mut self, server: usize) -> bool;

    /// Lets a server stand still.
    fn pause(&mut self, server: usize);

    /// Lets it go on.
    fn resume(&mut self, server: usize);

    /// Sets the wall clock of a server ahead; gives whether it can be.
    fn set_ahead(&mut self, server: usize, millis: i64) -> bool {
        let _ = (server, millis);
        false
    }
}

/// A store that the lab can start.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is missing on this machine, if something is.
    pub lacks: fn() -> Option<&'static str>,
    /// Starts it in this folder.
    pub start: fn(&Path) -> Result<Box<dyn Ground>, Error>,
}

/// All stores that the lab can start.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "sqlite",
        lacks: || None,
        start: sqlite::start,
    },
    Kind {
        name: "redis",
        lacks: redis::lacks,
        start: redis::start_one,
    },
    Kind {
        name: "redlock",
        lacks: redis::lacks,
        start: redis::start_five,
    },
    Kind {
        name: "etcd",
        lacks: etcd::lacks,
        start: etcd::start,
    },
    Kind {
        name: "zookeeper",
        lacks: zookeeper::lacks,
        start: zookeeper::start,
    },
    Kind {
        name: "postgres",
        lacks: postgres::lacks,
        start: postgres::start,
    },
    Kind {
        name: "mariadb",
        lacks: mysql::lacks,
        start: mysql::start,
    },
];

impl Kind {
    /// The one with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }
}

/// `127.0.0.1:P,127.0.0.1:P,…`
fn places(ports: &[u16]) -> String {
    let places = ports.iter().map(|port| format!("127.0.0.1:{port}"));
    places.collect::<Vec<_>>().join(",")
}
