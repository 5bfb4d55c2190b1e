//! What an engine guarantees, as a small struct that the conformance suite, the
//! documentation's table and the command line all read.

use std::fmt;

/// What an engine guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Promises {
    /// Who can share a lock.
    pub reach: Reach,
    /// Waiters are served in order of arrival, across processes.
    pub fair: bool,
    /// Readers and writers.
    pub rwlock: bool,
    /// More than one unit of capacity.
    pub semaphore: bool,
    /// How good its fencing tokens are.
    pub fence: Grade,
    /// How many tokens one grant may be split into, so that each hand-over
    /// inside a process gets its own. 1: every hand-over asks the store.
    pub tokens_per_grant: u32,
    /// When a killed holder's lock is free again.
    pub crash: Freed,
    /// Claims and tokens survive a restart of the store.
    pub durable: bool,
    /// A memo per name that only the holder can write.
    pub memo: bool,
    /// A memo that the store itself removes after a time.
    pub retention: bool,
    /// A reader without a lock can tell whether a writer came meanwhile.
    pub stamp: bool,
    /// What it goes by can be told to another session, as one word.
    pub stamp_word: bool,
}

impl Promises {
    /// A lock and nothing more; engines state what they have beyond it.
    pub const fn least(reach: Reach) -> Self {
        Self {
            reach,
            fair: false,
            rwlock: false,
            semaphore: false,
            fence: Grade::None,
            tokens_per_grant: 1,
            crash: Freed::AfterTtl,
            durable: false,
            memo: false,
            retention: false,
            stamp: false,
            stamp_word: false,
        }
    }
}

/// Who can share a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Tasks and threads of one process.
    Process,
    /// Processes of one machine.
    Machine,
    /// Machines of one network.
    Network,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "one process",
            Self::Machine => "one machine",
            Self::Network => "network",
        })
    }
}

/// The fence grade: how far a store's tokens can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// No tokens worth checking.
    None,
    /// C: unique, but not ordered.
    Unique,
    /// B: ordered under a stated bound on clocks.
    OrderedByClock,
    /// A: ordered and unique as far as the store itself is durable.
    Ordered,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "0",
            Self::Unique => "C",
            Self::OrderedByClock => "B",
            Self::Ordered => "A",
        })
    }
}

/// When a killed holder's lock is free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// At once: the store can tell.
    AtOnce,
    /// When its lease has run out.
    AfterTtl,
}

impl fmt::Display for Freed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtOnce => "at once",
            Self::AfterTtl => "after the ttl",
        })
    }
}
