//! A process that locks, works on a resource and unlocks, again and again, in
//! one of many ways. It tells every step on its standard output before it goes
//! on, so that what a killed one did is known.

mod observed;
mod ours;
mod redis;
mod sabotage;
mod section;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::history::{Event, Line, now};

pub use sabotage::Sabotage;

/// What a worker is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Its name in the history. Its tasks are called `name.1`, `name.2`, …
    /// unless it has one only.
    pub name: String,
    /// How many tasks it runs at once.
    pub tasks: u32,
    /// How it locks.
    pub strategy: Strategy,
    /// The store.
    pub url: String,
    /// The lock.
    pub lock: String,
    /// The resource that it works on.
    pub resource: SocketAddr,
    /// What it does to it.
    pub work: Work,
    /// Work that takes longer, now and then.
    pub long_work: Option<LongWork>,
    /// How long a lock without renewal lasts.
    pub ttl_millis: u64,
    /// How long it waits for a lock before it asks anew.
    pub patience_millis: u64,
    /// How long a hold may last, whatever it does.
    pub max_hold_millis: Option<u64>,
    /// How many may hold at once: a semaphore instead of a mutex if more than
    /// one, and nothing is done under it but to take time.
    pub permits: u32,
    /// Whether it tells what the store answers.
    pub tells_answers: bool,
    /// Work that takes long is over when this file is there.
    pub hurries_with: Option<PathBuf>,
    /// It asks for nothing while this file is there, and work that takes long is
    /// over.
    pub rests_with: Option<PathBuf>,
    /// It removes this file and stands still before its next write if the file
    /// is there.
    pub stops_with: Option<PathBuf>,
    /// The worker ends when this file is there.
    pub ends_with: Option<PathBuf>,
    /// What is wrong with its engine, on purpose.
    pub sabotage: Option<Sabotage>,
    /// What goes wrong in it, once, on purpose.
    pub accident: Option<Accident>,
}

/// How a worker locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Not at all.
    NoLock,
    /// A mutex of its own process.
    InProcess,
    /// `SETNX`, and `DEL` at the end.
    SetnxForever,
    /// `SETNX`, then `EXPIRE`.
    SetnxThenExpire,
    /// `SET NX PX`, and a release that removes only its own.
    NoRenewal,
    /// `SET NX PX`, and `DEL` at the end, whosever it is.
    BlindRelease,
    /// `SET NX PX`, and `GET`, compare, `DEL` at the end.
    GetThenDelete,
    /// `SET NX PX`, and a thread that renews it as long as the process lives.
    RenewedForever,
    /// No lock, one atomic step.
    Decrement,
    /// This library, and a resource that checks nothing.
    Unfenced,
    /// This library, and a resource that checks the fence.
    Fenced,
}

/// What is done under the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Whether one less is written, and the worker ends at zero; else one more.
    pub counts_down: bool,
    /// How long it takes between reading and writing.
    pub takes_millis: u64,
    /// A pause between one hold and the next.
    pub rests_millis: u64,
    /// The worker ends after so many holds.
    pub at_most: Option<u64>,
}

/// Work that takes longer in some holds, drawn by a seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongWork {
    /// How long it takes.
    pub millis: u64,
    /// What draws the holds.
    pub seed: u64,
    /// None is drawn any more when this file is there.
    pub ends_with: PathBuf,
}

/// How often it looks for a file.
const LOOK: Duration = Duration::from_millis(5);
/// One hold of so many takes long.
const ONE_IN: u32 = 4;

impl LongWork {
    fn is_drawn(&self, hold: u64) -> bool {
        let mut rng = StdRng::seed_from_u64(self.seed.wrapping_add(hold));
        rng.random_ratio(1, ONE_IN) && !self.ends_with.exists()
    }
}

/// What goes wrong in a worker, in its first hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accident {
    /// It dies between reading and writing.
    DiesInWork,
    /// It dies after `SETNX` and before `EXPIRE`.
    DiesBeforeExpiry,
    /// Its work takes so much longer than the lock lasts.
    Slow {
        /// Milliseconds.
        millis: u64,
    },
    /// It stands still between reading and writing, after its last look at the
    /// lock, until it is let go on.
    StopsBeforeWrite,
    /// It stands still between `GET` and `DEL`, until it is let go on.
    StopsBeforeDelete,
    /// Its work takes until this file is there.
    WorksUntil {
        /// The file.
        file: PathBuf,
    },
    /// It lives and does nothing.
    Hangs,
}

/// A worker's process.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) job: Job,
    /// Holds so far, over all tasks.
    holds: AtomicU64,
}

impl Job {
    /// A worker with one task that counts up: it takes a little while for it,
    /// and nothing goes wrong.
    #[must_use]
    pub fn new(
        name: &str,
        strategy: Strategy,
        url: &str,
        lock: &str,
        resource: SocketAddr,
    ) -> Self {
        Self {
            name: name.to_owned(),
            tasks: 1,
            strategy,
            url: url.to_owned(),
            lock: lock.to_owned(),
            resource,
            work: Work {
                counts_down: false,
                takes_millis: 30,
                rests_millis: 20,
                at_most: Some(1),
            },
            long_work: None,
            ttl_millis: 1_000,
            patience_millis: 20_000,
            max_hold_millis: None,
            permits: 1,
            tells_answers: false,
            hurries_with: None,
            rests_with: None,
            stops_with: None,
            ends_with: None,
            sabotage: None,
            accident: None,
        }
    }
}

impl Worker {
    /// Whether this hold has the accident.
    fn has(&self, hold: u64, accident: &Accident) -> bool {
        hold == 0 && self.job.accident.as_ref() == Some(accident)
    }

    /// How long the work of this hold takes.
    fn takes_millis(&self, hold: u64) -> u64 {
        let long = self.job.long_work.as_ref();
        let long = long.filter(|long| long.is_drawn(hold));
        long.map_or(self.job.work.takes_millis, |long| long.millis)
    }

    /// Comes back when somebody wants its work to be over.
    async fn is_hurried(&self) {
        let files = [&self.job.hurries_with, &self.job.rests_with];
        while !files.into_iter().flatten().any(|file| file.exists()) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Rests for as long as it is told to.
    async fn rest(&self, by: &str) {
        let is_to_rest = || {
            let file = self.job.rests_with.as_ref();
            file.is_some_and(|file| file.exists()) && !self.is_done(0)
        };
        if is_to_rest() {
            tell(by, Event::Rests);
        }
        while is_to_rest() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether somebody wants it to stand still before this write.
    fn is_to_stop(&self) -> bool {
        let file = self.job.stops_with.as_ref();
        file.is_some_and(|file| std::fs::remove_file(file).is_ok())
    }

    /// Whether it does not listen to what its guard tells, on purpose.
    fn is_deaf(&self) -> bool {
        self.job.sabotage == Some(Sabotage::DeafWorker)
    }

    /// The number of the next hold of this process.
    fn next_hold(&self) -> u64 {
        self.holds.fetch_add(1, Ordering::Relaxed)
    }

    fn is_done(&self, holds: u64) -> bool {
        let is_told = || {
            self.job
                .ends_with
                .as_ref()
                .is_some_and(|file| file.exists())
        };
        self.job.work.at_most.is_some_and(|most| holds >= most) || is_told()
    }
}

/// Tells what happens now.
fn tell(by: &str, event: Event) {
    let by = by.to_owned();
    let at = now();
    let line = serde_json::to_string(&Line { at, by, event });
    let mut text = line.unwrap_or_default();
    text.push('\n');
    // In one write, so that a reader never sees the half of a line of a process
    // that dies. If nobody listens any more there is nothing left to do here.
    let mut output = std::io::stdout().lock();
    let written = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    if written.is_err() {
        std::process::exit(0);
    }
}

/// Ends this process as a crash would.
fn die(by: &str) -> ! {
    tell(by, Event::Killed);
    std::process::abort();
}

/// Lets this process stand still until somebody lets it go on. The signal goes
/// to this very thread: it does not come back from here before it stood still.
fn stand_still() {
    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
}

/// Does a job to its end.
///
/// # Errors
/// If the resource or the store cannot be reached at the beginning.
pub async fn work(job: Job) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let tasks = job.tasks;
    let worker = Arc::new(Worker {
        holds: AtomicU64::new(0),
        job,
    });
    let mut running = tokio::task::JoinSet::new();
    let local = Arc::new(tokio::sync::Mutex::new(()));
    let session = match worker.job.strategy {
        Strategy::Unfenced | Strategy::Fenced => Some(ours::connect_patiently(&worker.job).await?),
        _ => None,
    };
    for number in 1..=tasks {
        let (worker, local, session) = (worker.clone(), local.clone(), session.clone());
        let by = match tasks {
            1 => worker.job.name.clone(),
            _ => format!("{}.{number}", worker.job.name),
        };
        running.spawn(async move {
            match session {
                Some(session) => ours::run(&worker, &by, session).await,
                None => redis::run(&worker, &by, &local).await,
            }
        });
    }
    drop(session);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_holds_take_long_until_that_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let ends_with = folder.path().join("over");
        let long = LongWork {
            millis: 3_000,
            seed: 7,
            ends_with: ends_with.clone(),
        };
        let count = || (0..200).filter(|&hold| long.is_drawn(hold)).count();
        assert!((20..100).contains(&count()), "{}", count());
        std::fs::write(ends_with, "").unwrap();
        assert_eq!(count(), 0);
    }
}
