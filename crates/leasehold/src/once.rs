//! Once per period: of all who ask for a slot, one runs it.
//!
//! Slots are growing numbers from a schedule. The lock's memo has the last one
//! that was begun, and whether it is done. So what counts is the slot, not how
//! long the lock was held or what time it is elsewhere.

mod rule;
mod schedule;

use std::time::Duration;

use self::rule::{Meanwhile, Record, Step, meanwhile, step};
pub use self::rule::{Missed, OnCrash};
pub use self::schedule::Schedule;
use crate::backoff;
use crate::clock::wall_time;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::guard::Guard;
use crate::random::random_u64;
use crate::session::Session;

/// How often, and with which pauses, to look what a holder does that has not said so
/// yet: about a second in all.
const LOOKS: u32 = 14;
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(120);

/// Something that is done once per slot. Made by [`Session::once`].
#[derive(Debug, Clone)]
pub struct Once {
    session: Session,
    name: String,
    schedule: Schedule,
    missed: Missed,
    on_crash: OnCrash,
    at_least: Duration,
}

/// What became of asking for a slot.
#[derive(Debug)]
pub enum Begun<R = Run> {
    /// It is ours to run. Ask again when it is complete: there may be more, if
    /// missed ones are made up.
    Started(R),
    /// Somebody else runs this slot right now.
    Elsewhere,
    /// The lock is held for something else, and the slot is not run. Asking again
    /// later, or [`Missed`], has it run.
    Busy {
        /// The slot that was asked for.
        slot: u64,
        /// The earlier slot that still runs, or whose lock is still kept. None if whoever holds the lock has begun
        /// no slot: it has just died, or uses the name as a plain lock.
        running: Option<u64>,
    },
    /// This slot was run, or given up.
    Done {
        /// The slot that was asked for.
        slot: u64,
    },
    /// A later slot was begun already: whoever asks is late.
    Old {
        /// The slot that was asked for.
        slot: u64,
        /// The last that was begun.
        last: u64,
    },
    /// By the store's clock the slot is further ahead than the next one, or a
    /// number is far beyond the last: whoever asks has a wrong clock.
    TooFarAhead {
        /// The slot that was asked for.
        slot: u64,
        /// The latest that is allowed.
        latest: u64,
    },
}

impl<R> Begun<R> {
    pub(crate) fn map<T>(self, change: impl FnOnce(R) -> T) -> Begun<T> {
        match self {
            Self::Started(run) => Begun::Started(change(run)),
            Self::Elsewhere => Begun::Elsewhere,
            Self::Busy { slot, running } => Begun::Busy { slot, running },
            Self::Done { slot } => Begun::Done { slot },
            Self::Old { slot, last } => Begun::Old { slot, last },
            Self::TooFarAhead { slot, latest } => Begun::TooFarAhead { slot, latest },
        }
    }
}

impl Session {
    /// Something that is done once per slot of a schedule, by whoever asks
    /// first. The name is a mutex with a memo; nothing else may use it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// use leasehold::once::{Begun, Schedule};
    /// let session = leasehold::connect("memory:").await?;
    /// let hourly = Schedule::per(std::time::Duration::from_secs(3600))?;
    /// let once = session.once("reports/hourly", hourly);
    /// while let Begun::Started(run) = once.begin().await? {
    ///     println!("slot {} is ours", run.slot());
    ///     run.complete().await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn once(&self, name: impl AsRef<str>, schedule: Schedule) -> Once {
        Once {
            session: self.clone(),
            name: name.as_ref().to_owned(),
            schedule,
            missed: Missed::default(),
            on_crash: OnCrash::default(),
            at_least: Duration::ZERO,
        }
    }
}

impl Once {
    /// What is done about slots that nobody ran in their time.
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// What is done about a slot whose run was cut off.
    #[must_use]
    pub fn on_crash(mut self, on_crash: OnCrash) -> Self {
        self.on_crash = on_crash;
        self
    }

    /// The lock is kept for at least this long, however short the run is.
    #[must_use]
    pub fn at_least(mut self, shortest: Duration) -> Self {
        self.at_least = shortest;
        self
    }

    /// Asks for the slot of now, by our wall clock.
    ///
    /// # Errors
    /// `Usage` if the schedule has no slot now; `Conflict` if the name is in use
    /// for something else or with another schedule; `Unsupported` if the store
    /// keeps no memos; `Unavailable` if the store cannot be reached, `Lost` if
    /// the lock was lost on the way: the slot may then count as cut off.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a slot that counts as cut off.
    pub async fn begin(&self) -> Result<Begun> {
        match self.schedule.slot_at(wall_time()) {
            Some(slot) => self.begin_slot(slot).await,
            None => {
                let why = "the schedule has no slot now; name one";
                Err(self.error(ErrorKind::Usage, why))
            }
        }
    }

    /// Asks for a slot.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    ///
    /// # Cancel safety
    /// As for [`begin`](Self::begin).
    pub async fn begin_slot(&self, due: u64) -> Result<Begun> {
        let clock = self.session.core().clock;
        for attempt in 0..LOOKS {
            if let Some(guard) = self.session.mutex(&self.name).try_lock().await? {
                return self.decide(guard, due).await;
            }
            // Whoever runs an earlier slot is not waited for.
            let is_last_look = attempt + 1 == LOOKS;
            if let Some(begun) = self.elsewhere(due, is_last_look).await? {
                return Ok(begun);
            }
            let pause = backoff::pause(attempt, FIRST_LOOK, LAST_LOOK, random_u64());
            clock.sleep_until(clock.now() + pause).await;
        }
        Ok(Begun::Busy {
            slot: due,
            running: None,
        })
    }

    /// Forgets which slots were run: whoever asks next begins anew, with any slot of any
    /// schedule. For a name whose last slot was far beyond the right one. `false` if
    /// somebody holds the lock; then nothing is changed.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether they are forgotten.
    pub async fn reset(&self) -> Result<bool> {
        let Some(guard) = self.session.mutex(&self.name).try_lock().await? else {
            return Ok(false);
        };
        if let Some(memo) = self.session.memo(&self.name).await?.memo {
            Record::read(&memo.bytes).ok_or_else(|| self.not_ours())?;
            guard.write_memo("").await?;
        }
        guard.release().await?;
        Ok(true)
    }

    /// What to say of a slot while another holds the lock. `None` if that one has not
    /// said yet what it does, or is gone already.
    async fn elsewhere(&self, due: u64, is_last_look: bool) -> Result<Option<Begun>> {
        let core = self.session.core();
        // Before the memo: whoever holds writes it, and nobody before writes it again.
        let queue = self.session.inspector().queue(&self.name).await?;
        let holder = queue.holders().next().and_then(|holder| holder.token);
        let reading = self.session.memo(&self.name).await?;
        let (record, is_holders) = match &reading.memo {
            None => (None, false),
            Some(memo) => {
                let tokens = core.promises.tokens_per_grant;
                let is_holders = holder.is_some_and(|token| memo.is_of(token.get(), tokens));
                (Some(self.read(&memo.bytes)?), is_holders)
            }
        };
        let last = record.as_ref().map(|record| record.slot);
        if let Some(latest) = self.schedule.latest(reading.time, last)
            && due > latest
        {
            let slot = due;
            return Ok(Some(Begun::TooFarAhead { slot, latest }));
        }
        Ok(match meanwhile(record.as_ref(), is_holders, due) {
            Meanwhile::Unknown => None,
            Meanwhile::Leaving { .. } if !is_last_look => None,
            Meanwhile::Runs => Some(Begun::Elsewhere),
            Meanwhile::Done => Some(Begun::Done { slot: due }),
            Meanwhile::Old { last } => Some(Begun::Old { slot: due, last }),
            Meanwhile::Earlier { running } | Meanwhile::Leaving { last: running } => {
                Some(Begun::Busy {
                    slot: due,
                    running: Some(running),
                })
            }
        })
    }

    async fn decide(&self, guard: Guard, due: u64) -> Result<Begun> {
        let reading = self.session.memo(&self.name).await?;
        let mut record = match reading.memo {
            Some(memo) => Some(self.read(&memo.bytes)?),
            None => None,
        };
        let last = record.as_ref().map(|record| record.slot);
        if let Some(latest) = self.schedule.latest(reading.time, last)
            && due > latest
        {
            let slot = due;
            return leave(guard, Begun::TooFarAhead { slot, latest }).await;
        }
        loop {
            let (missed, on_crash) = (self.missed, self.on_crash);
            match step(record.as_ref(), &self.schedule, due, missed, on_crash) {
                Step::Done => return leave(guard, Begun::Done { slot: due }).await,
                Step::Old { last } => {
                    return leave(guard, Begun::Old { slot: due, last }).await;
                }
                Step::GiveUp { slot } => {
                    let given_up = self.record(slot, 1, true);
                    guard.write_memo(given_up.write()).await?;
                    record = Some(given_up);
                }
                Step::Run { slot, attempt } => {
                    let running = self.record(slot, attempt, false);
                    guard.write_memo(running.write()).await?;
                    return Ok(Begun::Started(Run {
                        guard,
                        record: running,
                        at_least: self.at_least,
                        is_marked: false,
                    }));
                }
            }
        }
    }

    fn record(&self, slot: u64, attempt: u32, is_done: bool) -> Record {
        Record {
            schedule: self.schedule.to_string(),
            slot,
            attempt,
            is_done,
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Record> {
        let record = Record::read(bytes).ok_or_else(|| self.not_ours())?;
        let schedule = self.schedule.to_string();
        if record.schedule != schedule {
            let used = record.schedule;
            let why = format!(
                "the schedule is {schedule:?}, but the name is in use with {used:?}, whose slots \
                 are others: choose another name"
            );
            return Err(self.error(ErrorKind::Conflict, why));
        }
        Ok(record)
    }

    fn not_ours(&self) -> Error {
        let why = "the name's memo is not that of something done once: choose another name";
        self.error(ErrorKind::Conflict, why)
    }

    fn error(&self, kind: ErrorKind, why: impl Into<String>) -> Error {
        Error::new(kind, format!("do {} once", self.name), why)
    }
}

async fn leave(guard: Guard, begun: Begun) -> Result<Begun> {
    // Nothing was written, so a loss changes nothing.
    match guard.release().await {
        Err(error) if !matches!(error.kind(), ErrorKind::Lost(_)) => Err(error),
        _ => Ok(begun),
    }
}

/// A slot that is ours to run. If it is dropped without
/// [`complete`](Self::complete), or the process dies, it counts as cut off.
#[must_use = "a run that is dropped counts as cut off"]
#[derive(Debug)]
pub struct Run {
    guard: Guard,
    record: Record,
    at_least: Duration,
    /// The store knows that the slot is done.
    is_marked: bool,
}

impl Run {
    /// Which slot.
    pub fn slot(&self) -> u64 {
        self.record.slot
    }

    /// The how-manieth run of this slot it is, from 1.
    pub fn attempt(&self) -> u32 {
        self.record.attempt
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// The hold behind it: `check`, `lost`, `run` and the rest.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The slot is done, and never run again. Returns when the store knows; the lock
    /// is kept.
    ///
    /// # Errors
    /// As for [`complete`](Self::complete).
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the slot is done.
    pub async fn mark_done(&mut self) -> Result<()> {
        if !self.is_marked {
            self.record.is_done = true;
            self.guard.write_memo(self.record.write()).await?;
            self.is_marked = true;
        }
        Ok(())
    }

    /// The slot is done, and never run again. Returns when the store knows and
    /// the lock is given back.
    ///
    /// # Errors
    /// `Lost` if the lock was lost: the slot counts as cut off, unless the
    /// error's effect is unknown. `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the slot is done.
    pub async fn complete(mut self) -> Result<()> {
        self.mark_done().await?;
        let rest = self.at_least.saturating_sub(self.guard.held());
        if !rest.is_zero() {
            let clock = self.guard.hold().core().clock;
            tokio::select! {
                biased;
                _ = self.guard.lost() => {}
                () = clock.sleep_until(clock.now() + rest) => {}
            }
        }
        // The slot is done, whatever becomes of the lock.
        match self.guard.release().await {
            Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Ok(()),
            released => released,
        }
    }
}
