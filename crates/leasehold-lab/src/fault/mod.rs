//! What can be broken, one idea per file. Each says whether it could be done.

mod clock;
mod disk;
mod failover;
mod kill;
mod network;
mod pause;
mod restart;

use std::time::Duration;

use crate::torture::World;

/// Whether a fault took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It did.
    Installed,
    /// It did not, for this reason.
    Skipped(String),
    /// It may not have had the effect that it is meant to have.
    Doubtful(String),
}

/// A way to break something for a while.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Its name on the command line.
    pub name: &'static str,
    /// Breaks something for so long, and mends it. The number chooses what.
    pub happen: fn(&mut World, u64, Duration) -> Answer,
}

/// A worker stands still between its last look at the lock and its write.
pub const PAUSE_AT_WRITE: &str = "pause-at-write";
/// Needs a store with more than one server, which is started for it.
pub const FAILOVER: &str = "failover";
/// Needs a disk of its own for the store, which is mounted for it.
pub const DISK_FULL: &str = "disk-full";

/// All faults.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "kill",
        happen: kill::worker,
    },
    Fault {
        name: "pause",
        happen: pause::worker,
    },
    Fault {
        name: PAUSE_AT_WRITE,
        happen: pause::at_write,
    },
    Fault {
        name: "pause-server",
        happen: pause::server,
    },
    Fault {
        name: "cut",
        happen: network::cut,
    },
    Fault {
        name: "one-way",
        happen: network::one_way,
    },
    Fault {
        name: "delay",
        happen: network::delay,
    },
    Fault {
        name: "lost-replies",
        happen: network::lost_replies,
    },
    Fault {
        name: "restart",
        happen: restart::with_data,
    },
    Fault {
        name: "restart-empty",
        happen: restart::without_data,
    },
    Fault {
        name: "clock",
        happen: clock::ahead,
    },
    Fault {
        name: FAILOVER,
        happen: failover::leader,
    },
    Fault {
        name: DISK_FULL,
        happen: disk::full,
    },
];

impl Fault {
    /// The one with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        FAULTS.iter().find(|fault| fault.name == name)
    }
}
