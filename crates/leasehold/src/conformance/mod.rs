//! What every lock promises, as tests: for the engines here and for your own.
//!
//! A [`Case`] is one promise. It gets a [`Bench`], which opens independent
//! sessions on one store and can start a second process, and panics if the
//! promise is not kept. A case says which promises of the engine it needs; where
//! the engine does not make them it does not apply, and the runner should say
//! so rather than leave it out.
//!
//! `tests/conformance/main.rs` of this crate is a runner of a hundred lines. One for an
//! engine of your own looks the same, with [`Bench::on_engine`] and
//! [`peer_main`].
//!
//! | contract | subject | left to fault tests with real servers |
//! | --- | --- | --- |
//! | 1 capacity | `exclusion`, `permits`, `shared` | |
//! | 2 tokens grow | `fencing`, `breaking` | after a restart or failover of the store |
//! | 3 lost before another can hold | `lost`, `crash` | a suspended machine |
//! | 4 `check` does no I/O | `lost` | |
//! | 5 never touches another claim | `lost`, `repeat` | |
//! | 6 a waiter whose lease died | `lost` | |
//! | 7 repeated requests, lost replies | `repeat` | |
//! | 8 breaking | `breaking` | |
//! | 9 killed holder | `crash` | |
//! | 10 stopped holder | `crash` | |
//! | 11 dead, stopped and cancelled waiters | `crash`, `cancel` | |
//! | 12 lost wake-up | `outage` | |
//! | 13 cancel, drop, close | `cancel`, `dropping` | |
//! | 14 a store that refuses for a while | `outage` | restart and failover |
//! | 15 a wait ends at its deadline | `outage` | |
//! | 16 order | `order` | |
//! | 17 readers and writers | `shared` | |
//! | 18 permits | `permits` | |
//! | 19 `lock_all` | `many` | |
//! | 20 re-entering | `reentry` | |
//! | 21 no wall clock | `clocks` | |
//! | 22 names | `names` | |
//! | 23 `queue()` | `inspection` | |
//! | 24 few tasks | `many` | the number of connections |
//! | 25 shut-down | `dropping` | |
//! | 26 errors and secrets | `errors` | passwords in the process list |
//! | the memo and what is built on it | `memo`, `election`, `once`, `dedupe`, `latch`, `barrier` | |
//! | reading without a lock | `stamp` | after a restart or failover of the store |
// A case fails by panicking, with the place and what was expected.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod bench;
mod peer;
mod peer_main;
mod wire;

mod barrier;
mod breaking;
mod cancel;
mod clocks;
mod crash;
mod dedupe;
mod dropping;
mod election;
mod errors;
mod exclusion;
mod fencing;
mod inspection;
mod latch;
mod lost;
mod many;
mod memo;
mod names;
mod once;
mod order;
mod outage;
mod permits;
mod reentry;
mod repeat;
mod shared;
mod stamp;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use crate::promises::{Grade, Promises, Reach};

/// Long enough for a busy store to say that a lock is not free, and to be waited
/// for in vain.
const ENOUGH: Duration = Duration::from_secs(2);

pub use bench::{Bench, MakeEngine, Making};
pub use peer::Peer;
pub use peer_main::{is_peer, peer_main};
pub use wire::{Call, Fault, Wire};

#[doc(hidden)]
pub use crate::random::seeded::seed_this_thread;

/// A case under way.
pub type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One promise, as a test.
pub struct Case {
    /// What is promised, as a sentence; the subject comes first.
    pub name: &'static str,
    /// The lines of the contract that it shows.
    pub contract: &'static [u8],
    /// Whether an engine with these promises has to keep this one; else why
    /// not.
    pub needs: fn(&Promises) -> Result<(), &'static str>,
    run: Box<dyn Fn(Bench) -> Running + Send + Sync>,
}

impl Case {
    fn new<R, F>(contract: &'static [u8], needs: Needs, run: R) -> Self
    where
        R: Fn(Bench) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let path = std::any::type_name::<R>();
        let subject = path
            .split_once("conformance::")
            .map_or(path, |(_, name)| name);
        Self {
            name: subject,
            contract,
            needs,
            run: Box::new(move |bench| Box::pin(run(bench))),
        }
    }

    /// Runs the case; it panics if the promise is not kept. Needs a runtime of
    /// its own, with more than one thread, time and I/O.
    pub fn run(&self, bench: Bench) -> Running {
        (self.run)(bench)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = &self.contract;
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("contract", lines)
            .finish()
    }
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let subjects = [
        exclusion::cases,
        fencing::cases,
        lost::cases,
        repeat::cases,
        breaking::cases,
        crash::cases,
        cancel::cases,
        dropping::cases,
        outage::cases,
        order::cases,
        shared::cases,
        permits::cases,
        many::cases,
        reentry::cases,
        names::cases,
        inspection::cases,
        errors::cases,
        clocks::cases,
        memo::cases,
        election::cases,
        once::cases,
        dedupe::cases,
        stamp::cases,
        latch::cases,
        barrier::cases,
    ];
    subjects.into_iter().flat_map(|cases| cases()).collect()
}

type Needs = fn(&Promises) -> Result<(), &'static str>;

fn nothing(_: &Promises) -> Result<(), &'static str> {
    Ok(())
}

fn fair(promises: &Promises) -> Result<(), &'static str> {
    promised(promises.fair, "does not serve waiters in order")
}

fn rwlock(promises: &Promises) -> Result<(), &'static str> {
    promised(promises.rwlock, "has no readers and writers")
}

fn semaphore(promises: &Promises) -> Result<(), &'static str> {
    promised(promises.semaphore, "has no permits")
}

fn tokens(promises: &Promises) -> Result<(), &'static str> {
    promised(
        promises.fence >= Grade::OrderedByClock,
        "has no ordered tokens",
    )
}

fn memo(promises: &Promises) -> Result<(), &'static str> {
    promised(promises.memo, "keeps no memos")
}

fn peers(promises: &Promises) -> Result<(), &'static str> {
    promised(promises.reach != Reach::Process, "reaches one process only")
}

fn memo_and_peers(promises: &Promises) -> Result<(), &'static str> {
    memo(promises).and(peers(promises))
}

fn promised(is_promised: bool, why: &'static str) -> Result<(), &'static str> {
    is_promised.then_some(()).ok_or(why)
}
