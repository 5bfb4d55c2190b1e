//! One effect per message: of all who are given a message, one does its work, and
//! the others get the result.
//!
//! A message has a key. Its lock's memo has how often it was begun and, once it
//! is done, the result; the store keeps that for the retention time and then
//! forgets it. Without help from what the work changes this is *at least once,
//! deduplicated*: a crash after the effect and before [`Work::complete`] has it
//! done again. Where the effect is in an SQL database, [`Work::complete_in`] puts
//! the mark into the same transaction, and then it is exactly once.

mod record;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlx-sqlite"))]
mod sql;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::record::{Record, Step, step};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlx-sqlite"))]
pub use self::sql::{DoneDatabase, DoneTable};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::guard::Guard;
use crate::memo::{check_retention, kept_for_good};
use crate::mutex::Mutex;
use crate::name::Name;
use crate::reaper::limited;
use crate::session::Session;

/// How long a result may be, in bytes.
pub const LONGEST_RESULT: usize = 4000;
/// How long a key may be, in bytes.
pub const LONGEST_KEY: usize = 500;

/// Before the key in the lock's name, so that a lock of somebody else does not
/// have the same name by chance.
const PREFIX: &str = "dedupe/";
/// The least and the most that somebody is told to wait.
const SOONEST: Duration = Duration::from_millis(50);
const LATEST: Duration = Duration::from_secs(60);

/// A message that has one effect. Made by [`Session::dedupe`].
#[derive(Debug, Clone)]
pub struct Dedupe {
    session: Session,
    key: String,
    retention: Duration,
    max_attempts: Option<u32>,
    max_hold: Option<Duration>,
}

/// What became of asking for a message.
#[derive(Debug)]
pub enum Begun<W = Work> {
    /// It is ours to do.
    Started(W),
    /// Somebody else is at it.
    InProgress {
        /// When to ask again: by then it is done or, if its worker has died, free,
        /// unless the worker is alive and still at it.
        retry_after: Duration,
    },
    /// It was done, with this result.
    Done(Vec<u8>),
    /// It was begun as often as is allowed and never completed.
    GivenUp {
        /// How often it was begun.
        attempts: u32,
    },
}

impl<W> Begun<W> {
    pub(crate) fn map<T>(self, change: impl FnOnce(W) -> T) -> Begun<T> {
        match self {
            Self::Started(work) => Begun::Started(change(work)),
            Self::InProgress { retry_after } => Begun::InProgress { retry_after },
            Self::Done(result) => Begun::Done(result),
            Self::GivenUp { attempts } => Begun::GivenUp { attempts },
        }
    }
}

impl Session {
    /// A message that has one effect, whoever is given it and however often. The
    /// key should say what is done, such as an order's number; a broker's own
    /// message id may change when a message is sent again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// use leasehold::dedupe::Begun;
    /// let session = leasehold::connect("memory:").await?;
    /// for _delivery in 0..3 {
    ///     match session.dedupe("order-17/charge").begin().await? {
    ///         Begun::Started(work) => {
    ///             let receipt = "charged 5 EUR"; // the work, once
    ///             work.complete(receipt).await?;
    ///         }
    ///         Begun::Done(receipt) => assert_eq!(receipt, b"charged 5 EUR"),
    ///         other => println!("not now: {other:?}"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn dedupe(&self, key: impl AsRef<str>) -> Dedupe {
        Dedupe {
            session: self.clone(),
            key: key.as_ref().to_owned(),
            retention: Duration::from_secs(86_400),
            max_attempts: None,
            max_hold: None,
        }
    }
}

impl Dedupe {
    /// How long the store remembers the message after it was last begun or done;
    /// a day unless it is said. It should be longer than a message can take to
    /// come again.
    #[must_use]
    pub fn retention(mut self, keep: Duration) -> Self {
        self.retention = keep;
        self
    }

    /// How often the message may be begun, at least 1; any number of times unless
    /// it is said. After that it is [`Begun::GivenUp`], until the retention ends.
    #[must_use]
    pub fn max_attempts(mut self, most: u32) -> Self {
        self.max_attempts = Some(most);
        self
    }

    /// Ends the work after this time: the lock is then lost, and another may
    /// begin.
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = Some(longest);
        self
    }

    /// Asks for the message. `Started` is written down as an attempt before this
    /// returns.
    ///
    /// # Errors
    /// `Usage` for a bad key, retention or number of attempts; `Conflict` if the
    /// name is in use for something else; `Unsupported` if the store keeps no
    /// memos for a time; `Unavailable` if the store cannot be reached; `Lost` if
    /// the lock was lost on the way: an attempt may then be counted.
    ///
    /// # Cancel safety
    /// Dropping the future may leave an attempt that is counted.
    pub async fn begin(&self) -> Result<Begun> {
        let name = self.check()?;
        check_retention(&self.session.core().promises, self.retention, || {
            self.doing()
        })?;
        let Some(guard) = self.mutex(&name).try_lock().await? else {
            // Whoever holds may have completed it already.
            return match self.known(&name).await? {
                Some(Record {
                    result: Some(result),
                    ..
                }) => Ok(Begun::Done(result)),
                _ => self.in_progress(&name).await,
            };
        };
        self.count(guard, &name).await
    }

    /// The lock is ours. Counts this attempt, unless there is nothing to do.
    async fn count(&self, guard: Guard, name: &Name) -> Result<Begun> {
        let record = self.known(name).await?;
        match step(record, self.max_attempts) {
            Step::Done(result) => leave(guard, Begun::Done(result)).await,
            Step::GiveUp { attempts } => leave(guard, Begun::GivenUp { attempts }).await,
            Step::Start { attempt } => {
                let running = Record::running(attempt);
                guard
                    .write_memo_for(running.write(), self.retention)
                    .await?;
                Ok(Begun::Started(self.work(guard, attempt)))
            }
        }
    }

    fn work(&self, guard: Guard, attempt: u32) -> Work {
        Work {
            guard,
            key: self.key.clone(),
            attempt,
            retention: self.retention,
            is_completed: AtomicBool::new(false),
            #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlx-sqlite"))]
            begun_in: None,
        }
    }

    async fn known(&self, name: &Name) -> Result<Option<Record>> {
        let Some(memo) = self.session.memo(name).await?.memo else {
            return Ok(None);
        };
        let record = Record::read(&memo.bytes).ok_or_else(|| {
            let why = format!("the memo of {name} is not that of a message: choose another key");
            Error::new(ErrorKind::Conflict, self.doing(), why)
        })?;
        Ok(Some(record))
    }

    /// A dead worker's claim ends with its lease, so that is when to ask again.
    async fn in_progress(&self, name: &Name) -> Result<Begun> {
        let core = self.session.core();
        let queue = limited(core, core.engine.queue(name)).await;
        let longest = match queue {
            Some(queue) => queue?.holders().map(|holder| holder.time_left).max(),
            None => Some(core.settings.ttl),
        };
        let retry_after = longest.unwrap_or(SOONEST).clamp(SOONEST, LATEST);
        Ok(Begun::InProgress { retry_after })
    }

    fn mutex(&self, name: &Name) -> Mutex {
        let mutex = self.session.mutex(name);
        match self.max_hold {
            Some(longest) => mutex.max_hold(longest),
            None => mutex,
        }
    }

    fn check(&self) -> Result<Name> {
        let usage = |why: String| Err(Error::new(ErrorKind::Usage, self.doing(), why));
        let length = self.key.len();
        if !(1..=LONGEST_KEY).contains(&length) {
            return usage(format!(
                "the key has {length} bytes; from 1 to {LONGEST_KEY} are allowed"
            ));
        }
        if self.max_attempts == Some(0) {
            return usage("no attempt is allowed; at least 1 is needed".into());
        }
        Name::new(format!("{PREFIX}{}", self.key))
    }

    fn doing(&self) -> String {
        format!("begin the message {}", self.key)
    }
}

async fn leave(guard: Guard, begun: Begun) -> Result<Begun> {
    // Nothing was written, so a loss changes nothing.
    match guard.release().await {
        Err(error) if !matches!(error.kind(), ErrorKind::Lost(_)) => Err(error),
        _ => Ok(begun),
    }
}

/// A message that is ours to do. When it is dropped the lock is given back; if it
/// was not completed, or if the process dies, the attempt stays counted and the
/// next one who asks begins it again.
#[must_use = "a message that is dropped is begun again by somebody else"]
#[derive(Debug)]
pub struct Work {
    guard: Guard,
    key: String,
    /// 0 if the lock's store counts no attempts.
    attempt: u32,
    retention: Duration,
    /// It may be done. Then nothing takes that back.
    is_completed: AtomicBool,
    /// When, by the clock of the database that was asked for its mark.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlx-sqlite"))]
    begun_in: Option<i64>,
}

impl Work {
    /// Which message.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The how-manieth time it was begun, from 1; 0 if the store cannot count.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// The hold behind it: `check`, `lost`, `run` and the rest.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The message is done: from now on whoever asks gets this result, until the
    /// retention ends. Returns when the store knows. The lock is given back when
    /// the work is dropped, or by [`release`](Self::release).
    ///
    /// # Errors
    /// `Usage` if the result has more than [`LONGEST_RESULT`] bytes: nothing is
    /// lost, complete it with a shorter one. `Lost` if the lock was lost: it is
    /// not done, unless the error's effect is unknown. `Unavailable` if the store
    /// does not answer: completing again is safe. `Unsupported` if the store keeps
    /// no memos for a time.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is done.
    pub async fn complete(&self, result: impl AsRef<[u8]>) -> Result<()> {
        let result = result.as_ref();
        self.check(result)?;
        if self.attempt == 0 {
            return Err(kept_for_good(self.completing()));
        }
        let done = Record {
            attempt: self.attempt,
            result: Some(result.to_owned()),
        };
        self.is_completed.store(true, Ordering::Relaxed);
        self.guard
            .write_memo_for(done.write(), self.retention)
            .await
    }

    /// Gives the lock back, and returns when the store knows. A message that is
    /// not completed is begun again by the next one who asks; the attempt stays
    /// counted.
    ///
    /// # Errors
    /// `Lost` if the lock was lost, `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// The lock is given back all the same.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }

    /// As if it had not been begun: the attempt is not counted. For a worker that
    /// is shut down before it has done anything, or that was given the message at
    /// the wrong time. After [`complete`](Self::complete), whatever became of that,
    /// it only gives the lock back.
    ///
    /// # Errors
    /// `Lost` if the lock was lost: the attempt stays counted. `Unavailable` if
    /// the store cannot be reached.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the attempt is counted.
    pub async fn abandon(self) -> Result<()> {
        match self.attempt {
            0 => {}
            _ if self.is_completed.load(Ordering::Relaxed) => {}
            // No bytes remove it.
            1 => self.guard.write_memo_for("", self.retention).await?,
            attempt => {
                let before = Record::running(attempt - 1).write();
                self.guard.write_memo_for(before, self.retention).await?;
            }
        }
        self.release().await
    }

    fn check(&self, result: &[u8]) -> Result<()> {
        let length = result.len();
        if length <= LONGEST_RESULT {
            return Ok(());
        }
        let why = format!("the result has {length} bytes; at most {LONGEST_RESULT} are allowed");
        Err(Error::new(ErrorKind::Usage, self.completing(), why))
    }

    fn completing(&self) -> String {
        format!("complete the message {}", self.key)
    }
}
