//! A double barrier: so many go in together, and none has left before all have.
//! Permits of a semaphore say who is there, and the memo of a mutex beside it who
//! went in together the last time.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::guard::{Guard, Lost};
use crate::looking::{until_seen, within};
use crate::memo;
use crate::name::Name;
use crate::session::Session;
use crate::tally::{Tally, must_be_countable};

const KIND: &str = "barrier";

/// So many go in together, and none has left before all have. Made by
/// [`Session::barrier`].
#[derive(Debug, Clone)]
pub struct Barrier {
    session: Session,
    name: String,
    total: u32,
    keep: Option<Duration>,
}

impl Session {
    /// A double barrier for so many members. The name is a semaphore, and with
    /// `.gate` behind it a mutex with a memo; nothing else may use them. All parties
    /// must name the same number, at most [`MOST_MEMBERS`](crate::MOST_MEMBERS).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// let session = leasehold::connect("memory:").await?;
    /// let (one, other) = (session.barrier("load/test", 2), session.barrier("load/test", 2));
    /// let (one, other) = tokio::try_join!(one.enter(), other.enter())?; // both are here
    /// tokio::try_join!(one.leave(), other.leave())?; // both are done
    /// # Ok(()) }
    /// ```
    pub fn barrier(&self, name: impl AsRef<str>, total: u32) -> Barrier {
        Barrier {
            session: self.clone(),
            name: name.as_ref().to_owned(),
            total,
            keep: None,
        }
    }
}

impl Barrier {
    /// Has the store forget who went in together, so long after all have left. For names
    /// that do not come again; without this something is left of every name for good,
    /// and with it too if none of them leaves but by dying.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Waits until all are here. Who comes beyond that number waits for the next
    /// time, when all of this one have left. No store tells that all are here: it
    /// looks now and then, at least twenty times in a ttl or once a second.
    ///
    /// # Errors
    /// `Conflict` if the name is in use for something else or with another number;
    /// `Lost` if we do not count any more, because our lease is lost; `Usage` if
    /// the number or the name is not allowed; `Unsupported` if the store keeps no
    /// memos or no permits; else as for [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    /// Dropping the future takes us out again, unless all were here already.
    pub async fn enter(&self) -> Result<Entered> {
        // Says at once if the store or the name is of no use.
        self.last().await?;
        let guard = self
            .session
            .semaphore(&self.name, self.total)
            .acquire()
            .await?;
        let id = guard.fence().holder;
        let look = || async {
            let last = self.last().await?;
            if last.tally.ids.contains(&id) {
                return Ok(Some(last));
            }
            match last.tally.next(&self.present().await?) {
                Some(_) => self.open().await,
                None => Ok(None),
            }
            .map(|round| round.filter(|round| round.tally.ids.contains(&id)))
        };
        let doing = self.doing();
        let round = tokio::select! {
            biased;
            lost = guard.lost() => return Err(guard.loss(lost, "enter")),
            round = until_seen(self.session.core(), &doing, look) => round?,
        };
        Ok(Entered {
            barrier: self.clone(),
            guard,
            round,
        })
    }

    /// Waits for at most this long.
    ///
    /// # Errors
    /// `TimedOut`; else as for [`enter`](Self::enter).
    ///
    /// # Cancel safety
    /// As for [`enter`](Self::enter).
    pub async fn enter_within(&self, longest: Duration) -> Result<Entered> {
        within(longest, || self.doing(), self.enter()).await
    }

    /// Writes down who goes in together, if nobody is at that. `None` if somebody
    /// is, or somebody left meanwhile.
    async fn open(&self) -> Result<Option<Round>> {
        let Some(gate) = self.session.mutex(self.gate()).try_lock().await? else {
            return Ok(None);
        };
        let next = self.last().await?.tally.next(&self.present().await?);
        let Some(tally) = next else {
            return settled(gate.release().await).map(|()| None);
        };
        let token = Some(gate.token());
        match gate.write_memo(tally.write(KIND)).await {
            Ok(()) => settled(gate.release().await).map(|()| Some(Round { tally, token })),
            // Somebody else is at it by now.
            Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of this round have left: from here on it is kept for a time, unless others
    /// have gone in since. Nothing depends on it.
    async fn keep_for(&self, round: &Round, keep: Duration) -> Result<()> {
        let Some(gate) = self.session.mutex(self.gate()).try_lock().await? else {
            return Ok(());
        };
        if self.last().await?.tally.ids == round.tally.ids {
            let text = round.tally.write(KIND);
            gate.write_memo_for(text, keep).await?;
        }
        gate.release().await
    }

    /// Who has a permit now.
    async fn present(&self) -> Result<BTreeSet<u64>> {
        let engine = &self.session.core().engine;
        let holders = engine.holders(&Name::new(&self.name)?).await?;
        Ok(holders.into_iter().collect())
    }

    /// Who went in together the last time.
    async fn last(&self) -> Result<Round> {
        must_be_countable(self.total, || self.doing())?;
        let core = self.session.core();
        let Some(memo) = memo::read(core, &Name::new(self.gate())?).await?.memo else {
            let tally = Tally::of(self.total);
            return Ok(Round { tally, token: None });
        };
        let conflict = |why: String| Error::new(ErrorKind::Conflict, self.doing(), why);
        let tally = Tally::read(KIND, &memo.bytes).ok_or_else(|| {
            let gate = self.gate();
            conflict(format!(
                "the memo of {gate} is not that of a barrier: choose another name"
            ))
        })?;
        // Another number than the last time is fine once all of those have left;
        // until then the permits say so.
        let tally = Tally {
            total: self.total,
            ..tally
        };
        let token = Some(memo.token);
        Ok(Round { tally, token })
    }

    fn forgotten(&self) -> Error {
        let why = "the store has forgotten who went in together: the others may still be inside";
        Error::new(ErrorKind::Lost(Lost::Gone), self.doing(), why)
    }

    fn gate(&self) -> String {
        format!("{}.gate", self.name)
    }

    fn doing(&self) -> String {
        format!("meet at the barrier {}", self.name)
    }
}

/// A lock that is lost is given back too.
fn settled(released: Result<()>) -> Result<()> {
    match released {
        Err(error) if !matches!(error.kind(), ErrorKind::Lost(_)) => Err(error),
        _ => Ok(()),
    }
}

/// We are in, with all the others, until we leave. Dropping it leaves too, without
/// waiting for anybody.
#[must_use = "whoever drops it has left"]
#[derive(Debug)]
pub struct Entered {
    barrier: Barrier,
    guard: Guard,
    round: Round,
}

/// Who went in together, and by whose word: none, if nobody ever did.
#[derive(Debug)]
struct Round {
    tally: Tally,
    token: Option<Token>,
}

impl Entered {
    /// Our permit: `check`, `lost`, `run` and the rest.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Leaves, and waits until all the others have left, or are dead for as long as
    /// their ttl.
    ///
    /// # Errors
    /// `Lost` if we did not count any more, or the store has forgotten who went in
    /// together; the others may then be anywhere. Else `Unavailable` if the store
    /// cannot be reached.
    ///
    /// # Cancel safety
    /// Dropping the future leaves in the background.
    pub async fn leave(self) -> Result<()> {
        let Self {
            barrier,
            guard,
            round,
        } = self;
        guard.release().await?;
        let look = || async {
            if round.tally.is_any_in(&barrier.present().await?) {
                return Ok(None);
            }
            // After that look: a store that forgot who is there forgot this too, or went
            // back to an earlier time. Those of a later one went in because all of ours
            // had left.
            let last = barrier.last().await?;
            let is_known = last.tally.ids == round.tally.ids || last.token > round.token;
            match is_known && !last.tally.ids.is_empty() {
                true => Ok(Some(())),
                false => Err(barrier.forgotten()),
            }
        };
        until_seen(barrier.session.core(), &barrier.doing(), look).await?;
        if let Some(keep) = barrier.keep
            && let Err(error) = barrier.keep_for(&round, keep).await
        {
            tracing::debug!(%error, "who went in together is kept for longer");
        }
        Ok(())
    }
}
