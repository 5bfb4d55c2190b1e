//! A held claim in the hands of the user.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::Instrument;

use crate::engine::{Cause, Withdrawn};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::{Fence, Token};
use crate::hold::{Hold, Stake};
use crate::reaper::{Errand, Withdrawal, limited};

/// Why a guard may no longer act as holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lost {
    /// The lease could not be renewed in time; the store may grant the lock to
    /// another at any moment from now.
    Deadline,
    /// The store no longer has the claim.
    Gone,
    /// Somebody broke the lock.
    Evicted,
    /// The hold reached its `max_hold` or `max_renewals`.
    HoldLimit,
    /// The session was closed.
    Closed,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "the lease could not be renewed in time",
            Self::Gone => "the store no longer has the claim",
            Self::Evicted => "the lock was broken",
            Self::HoldLimit => "the hold reached its limit",
            Self::Closed => "the session was closed",
        })
    }
}

/// A lock that is held: one type for every kind of lock and every store.
///
/// Dropping it gives the lock back in the background; [`release`](Self::release)
/// gives it back and says whether it had been lost. A guard can be moved to
/// another task or thread.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct Guard {
    hold: Arc<Hold>,
    is_left: bool,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
        Self {
            hold,
            is_left: false,
        }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.hold.claim().name.as_str()
    }

    /// The fencing token: greater than that of every grant before it.
    pub fn token(&self) -> Token {
        self.hold.fence().token
    }

    /// What to show to the resource this lock protects.
    pub fn fence(&self) -> Fence {
        self.hold.fence()
    }

    /// Whether the lock is still held, by the clock and without I/O. Never says
    /// so past the deadline.
    ///
    /// # Errors
    /// `Lost`, with the reason.
    pub fn check(&self) -> Result<()> {
        match self.hold.lost() {
            None => Ok(()),
            Some(lost) => Err(self.loss(lost, "check")),
        }
    }

    /// How long the lock is certainly held if no renewal gets through any more;
    /// zero if it is lost. Does no I/O.
    pub fn valid_for(&self) -> Duration {
        if self.hold.lost().is_some() {
            return Duration::ZERO;
        }
        self.hold.deadline().since(self.hold.core().clock.now())
    }

    /// How long it took to get the lock.
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }

    /// How long the lock has been held.
    pub fn held(&self) -> Duration {
        self.hold.held()
    }

    /// Waits until the lock is lost and says why. Resolves before the store can
    /// grant the lock to another; never because of a normal release.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn lost(&self) -> Lost {
        self.hold.until_lost().await
    }

    /// Waits until the lock will be lost in `notice` unless a renewal gets
    /// through, and says how long it is still valid: time to wind up the work.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn expiring(&self, notice: Duration) -> Duration {
        let clock = self.hold.core().clock;
        loop {
            let left = self.valid_for();
            if left <= notice {
                return left;
            }
            tokio::select! {
                biased;
                _ = self.lost() => return Duration::ZERO,
                () = clock.sleep_until(self.hold.deadline() - notice) => {}
            }
        }
    }

    /// Does the work while the lock is held, and drops it at the instant the
    /// lock is lost. The work gets the token, to pass it on to the resource.
    ///
    /// # Errors
    /// `Lost`, with the reason; the work is then dropped at its last await
    /// point.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work; the lock stays held.
    pub async fn run<T, W: Future<Output = T>>(&self, work: impl FnOnce(Token) -> W) -> Result<T> {
        self.check()?;
        let mut work = pin!(work(self.token()));
        let mut lost = pin!(self.lost());
        std::future::poll_fn(|context| {
            // The clock is asked before every step of the work, so that after a
            // pause not one more step is taken.
            if let Some(lost) = self.hold.lost() {
                return Poll::Ready(Err(self.loss(lost, "work under")));
            }
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            lost.as_mut()
                .poll(context)
                .map(|lost| Err(self.loss(lost, "work under")))
        })
        .await
    }

    /// Gives the lock back; returns when the store knows. If this is one of
    /// several guards of a reentrant hold, only the last one gives it back.
    ///
    /// # Errors
    /// `Lost` if the lock had been lost before; there is then nothing to
    /// release. `Unavailable` if the store does not answer until the lease has
    /// run out, when it lets go by itself.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the release to the background.
    pub async fn release(mut self) -> Result<()> {
        self.is_left = true;
        // A hold that is past its deadline has nothing to give back.
        self.hold.lost();
        let Some(stake) = self.hold.leave() else {
            return match self.hold.lost() {
                Some(lost) => Err(self.loss(lost, "release")),
                // Another guard of a reentrant hold is still there.
                None => Ok(()),
            };
        };
        let Some((claim, turn)) = pass_on(stake) else {
            return Ok(());
        };
        let span = tracing::debug_span!("release", lock = self.name(), token = %self.token());
        let leaving = Leaving {
            hold: self.hold.clone(),
            withdrawal: Some(Withdrawal::new(claim, turn)),
        };
        self.withdraw(leaving).instrument(span).await
    }

    async fn withdraw(&self, mut leaving: Leaving) -> Result<()> {
        let core = self.hold.core();
        let request = core.engine.withdraw(self.hold.claim(), Cause::Ours);
        let answer = limited(core, request).await;
        let Some(mut withdrawal) = leaving.withdrawal.take() else {
            return Ok(());
        };
        let error = match answer {
            Some(Ok(withdrawn)) => {
                drop(withdrawal.turn.take());
                if withdrawal.doubt.is_some() {
                    core.send(Errand::Withdraw(withdrawal));
                }
                return match withdrawn {
                    Withdrawn::Removed => Ok(()),
                    Withdrawn::Absent => Err(self.loss(Lost::Gone, "release")),
                };
            }
            Some(Err(error)) => error,
            None => {
                let doing = format!("release {}", self.name());
                Error::new(ErrorKind::Unavailable, doing, "the store does not answer")
                    .effect_is(Effect::Unknown)
            }
        };
        // The reaper goes on asking; we wait for it as long as the lock is ours
        // in the store's eyes.
        let is_passing = error.is_passing();
        let (done, heard) = oneshot::channel();
        withdrawal.done = Some(done);
        core.send(Errand::Withdraw(withdrawal));
        let heard = match is_passing {
            true => tokio::time::timeout(core.settings.ttl, heard).await,
            false => return Err(error),
        };
        match heard {
            Ok(Ok(())) => Ok(()),
            // The session was closed, and the lease took the claim along.
            Ok(Err(_)) if core.is_closed() => Ok(()),
            _ => Err(error),
        }
    }

    pub(crate) fn loss(&self, lost: Lost, doing: &str) -> Error {
        let doing = format!("{doing} {}", self.name());
        let why = match self.hold.note() {
            Some(note) => format!("{lost} {note}"),
            None => lost.to_string(),
        };
        Error::new(ErrorKind::Lost(lost), doing, why)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        if let Some((claim, turn)) = self.hold.leave().and_then(pass_on) {
            self.hold.core().send(Errand::withdraw(claim, turn));
        }
    }
}

/// Hands the claim to the next task of this process, or gives it back to be
/// withdrawn.
fn pass_on(stake: Stake) -> Option<(crate::hold::Claim, Option<crate::local::Turn>)> {
    let Stake { claim, turn } = stake;
    match turn {
        Some(turn) => {
            let (claim, turn) = turn.hand_over(claim)?;
            Some((claim, Some(turn)))
        }
        None => Some((claim, None)),
    }
}

/// A release under way: if its future is dropped the reaper takes over.
struct Leaving {
    hold: Arc<Hold>,
    withdrawal: Option<Withdrawal>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(withdrawal) = self.withdrawal.take() {
            self.hold.core().send(Errand::Withdraw(withdrawal));
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("token", &self.token().get())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
