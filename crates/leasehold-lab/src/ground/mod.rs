//! What a run stands on: a store, with servers that can be broken.

mod contents;
mod etcd;
mod lookout;
mod mysql;
mod postgres;
mod quarantine;
mod redis;
mod sentinel;
mod sqlite;
mod standby;
mod zookeeper;

use std::path::Path;

use crate::history::Moment;
use crate::story::Error;

pub use contents::Contents;

/// A store under test.
pub trait Ground: std::fmt::Debug {
    /// The ports on which workers reach it; none if nothing can be put between.
    fn ports(&self) -> Vec<u16>;

    /// How many servers it has that can be broken.
    fn servers(&self) -> usize {
        self.ports().len()
    }

    /// The ports of servers that know nothing of each other, if whoever has the
    /// lock on most of them holds it.
    fn voters(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Its URL for a worker that reaches its servers on these ports.
    fn url(&self, ports: &[u16], ttl_millis: u64) -> String;

    /// What is in it, as its own tools show it.
    ///
    /// # Errors
    /// Why it cannot be seen, for people.
    fn contents(&self) -> Result<Contents, String>;

    /// Kills a server with SIGKILL.
    fn kill(&mut self, server: usize);

    /// Starts a killed server again.
    fn start_again(&mut self, server: usize);

    /// Starts killed servers again, together: some serve only if others do.
    fn start_all_again(&mut self, servers: &[usize]) {
        for &server in servers {
            self.start_again(server);
        }
    }

    /// Whether servers may forget without breaking what the store asks of its
    /// operator.
    fn may_forget(&self) -> bool {
        false
    }

    /// Takes away what a killed server had on disk.
    fn forget(&mut self, server: usize) {
        let _ = server;
    }

    /// Those without which the store cannot go on: most of its servers, from this
    /// one on, or the one that leads.
    fn vital(&self, first: usize) -> Vec<usize> {
        let count = self.servers();
        (first..first + count / 2 + 1)
            .map(|number| number % count)
            .collect()
    }

    /// What an operator does when servers have forgotten, while workers go on.
    ///
    /// # Errors
    /// If it cannot be done like that.
    fn mend(&mut self, ttl_millis: u64) -> Result<Mended, String> {
        let _ = ttl_millis;
        Ok(Mended::All)
    }

    /// The rest of it, when no worker is there any more.
    ///
    /// # Errors
    /// If it cannot be done.
    fn mend_without_workers(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Lets a server stand still.
    fn pause(&mut self, server: usize);

    /// Lets it go on.
    fn resume(&mut self, server: usize);

    /// Whether the wall clocks of its servers can be moved here.
    fn has_clocks(&self) -> bool {
        false
    }

    /// Sets the wall clock of a server ahead.
    fn set_ahead(&mut self, server: usize, millis: i64) {
        let _ = (server, millis);
    }

    /// Whether another server takes over from one that is away, by itself.
    fn takes_over(&self) -> bool {
        false
    }

    /// From when to when another server took over, whether a fault made it or
    /// not, as far as the store tells.
    fn switches(&mut self) -> Vec<(Moment, Moment)> {
        Vec::new()
    }

    /// Lets whoever would take over fall behind: from now on it learns nothing,
    /// until the server that leads is deposed. Gives whether that can be.
    fn fall_behind(&mut self) -> bool {
        false
    }

    /// Whether the server that leads can be deposed now.
    ///
    /// # Errors
    /// Why not, for people.
    fn may_depose(&self) -> Result<(), String> {
        Err("no server of this store takes over from another here".into())
    }

    /// Kills the server that leads and waits until another does. Gives which it
    /// was.
    ///
    /// # Errors
    /// Why this cannot be, for people.
    fn depose(&mut self) -> Result<usize, String> {
        self.may_depose().map(|()| 0)
    }
}

/// What an operator could do for servers that have forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mended {
    /// All that there is to do.
    All,
    /// Nothing, as long as there are workers: too much is forgotten.
    TooMuchForgotten,
}

/// How a store is started in a folder.
pub type Start = fn(&Path) -> Result<Box<dyn Ground>, Error>;

/// A store that the lab can start.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is missing on this machine, if something is.
    pub lacks: fn() -> Option<&'static str>,
    /// Starts it in this folder.
    pub start: Start,
    /// Starts it so that a server can take over from another, where that is
    /// another way.
    pub start_replicated: Start,
    /// How many megabytes it needs, if its disk is to be full.
    pub room: u32,
}

/// All stores that the lab can start.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "sqlite",
        lacks: || None,
        start: sqlite::start,
        start_replicated: sqlite::start,
        room: 8,
    },
    Kind {
        name: "redis",
        lacks: redis::lacks,
        start: redis::start_one,
        start_replicated: sentinel::start,
        room: 8,
    },
    Kind {
        name: "redlock",
        lacks: redis::lacks,
        start: redis::start_five,
        start_replicated: redis::start_five,
        room: 16,
    },
    Kind {
        name: "etcd",
        lacks: etcd::lacks,
        start: etcd::start,
        start_replicated: etcd::start,
        room: 600,
    },
    Kind {
        name: "zookeeper",
        lacks: zookeeper::lacks,
        start: zookeeper::start,
        start_replicated: zookeeper::start,
        room: 300,
    },
    Kind {
        name: "postgres",
        lacks: postgres::lacks,
        start: postgres::start,
        start_replicated: standby::start,
        room: 200,
    },
    Kind {
        name: "mariadb",
        lacks: mysql::lacks,
        start: mysql::start,
        start_replicated: mysql::start,
        room: 400,
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
