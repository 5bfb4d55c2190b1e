//! What can be broken, one fault per file. Each says whether it could be done.

mod clock;
mod cut;
mod delay;
mod disk_full;
mod failover;
mod kill;
mod lost_replies;
mod network;
mod one_way;
mod pause;
mod pause_at_write;
mod pause_server;
mod restart;
mod restart_all_empty;
mod restart_empty;

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
    /// Breaks something for so long, and mends it. The number chooses what; an
    /// even one aims at whoever holds.
    pub happen: fn(&mut World, u64, Duration) -> Answer,
}

/// A worker stands still between its last look at the lock and its write.
pub const PAUSE_AT_WRITE: &str = "pause-at-write";
/// All servers of a store forget at once. No majority of Redlock's is left that
/// could tell that they did.
pub const RESTART_ALL_EMPTY: &str = "restart-all-empty";
/// Why nobody takes the data of a store away that has to keep it.
const MUST_NOT_FORGET: &str = "this store must not lose its data";
/// Needs a store with more than one server, which is started for it.
pub const FAILOVER: &str = "failover";
/// Another server took over, whether that was meant or not.
pub const SWITCH: &str = "switch";
/// Needs a disk of its own for the store, which is mounted for it.
pub const DISK_FULL: &str = "disk-full";

/// All faults.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "kill",
        happen: kill::happen,
    },
    Fault {
        name: "pause",
        happen: pause::happen,
    },
    Fault {
        name: PAUSE_AT_WRITE,
        happen: pause_at_write::happen,
    },
    Fault {
        name: "pause-server",
        happen: pause_server::happen,
    },
    Fault {
        name: "cut",
        happen: cut::happen,
    },
    Fault {
        name: "one-way",
        happen: one_way::happen,
    },
    Fault {
        name: "delay",
        happen: delay::happen,
    },
    Fault {
        name: "lost-replies",
        happen: lost_replies::happen,
    },
    Fault {
        name: "restart",
        happen: restart::happen,
    },
    Fault {
        name: "restart-empty",
        happen: restart_empty::happen,
    },
    Fault {
        name: RESTART_ALL_EMPTY,
        happen: restart_all_empty::happen,
    },
    Fault {
        name: "clock",
        happen: clock::happen,
    },
    Fault {
        name: FAILOVER,
        happen: failover::happen,
    },
    Fault {
        name: DISK_FULL,
        happen: disk_full::happen,
    },
];

impl Fault {
    /// The one with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        FAULTS.iter().find(|fault| fault.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::{Contents, Ground};
    use crate::history::Event;
    use crate::torture::NOBODY_HIT;

    /// A server that must not forget, and that nobody takes over from.
    #[derive(Debug)]
    struct Alone;

    impl Ground for Alone {
        fn ports(&self) -> Vec<u16> {
            vec![1]
        }

        fn url(&self, _: &[u16], _: u64) -> String {
            String::new()
        }

        fn contents(&self) -> Result<Contents, String> {
            Ok(Contents::default())
        }

        fn kill(&mut self, _: usize) {}

        fn start_again(&mut self, _: usize) {}

        fn pause(&mut self, _: usize) {}

        fn resume(&mut self, _: usize) {}
    }

    /// The answer, and what the history says was broken.
    fn happen(name: &str) -> (Answer, Vec<String>) {
        let mut world = World::without_workers(Box::new(Alone));
        let happen = Fault::find(name).unwrap().happen;
        let answer = happen(&mut world, 0, Duration::ZERO);
        let lines = world.recorder.history().lines;
        let broken = lines.into_iter().filter_map(|line| match line.event {
            Event::Fault { kind, .. } => Some(kind),
            _ => None,
        });
        (answer, broken.collect())
    }

    #[test]
    fn the_history_tells_what_was_broken_and_not_what_was_meant_to_be() {
        let (answer, broken) = happen("restart-empty");
        assert!(matches!(answer, Answer::Skipped(_)), "{answer:?}");
        assert_eq!(broken, [""; 0]);
        let (answer, broken) = happen("restart");
        assert_eq!(answer, Answer::Doubtful(NOBODY_HIT.into()));
        assert_eq!(broken, ["restart"]);
        let (answer, broken) = happen(FAILOVER);
        assert!(matches!(answer, Answer::Skipped(_)), "{answer:?}");
        assert_eq!(broken, [""; 0]);
    }
}
