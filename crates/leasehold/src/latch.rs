//! A latch: it opens when so many parts are counted. A mutex, and its memo for
//! which parts those are.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::looking::{until_seen, within};
use crate::memo;
use crate::name::Name;
use crate::random::random_u64;
use crate::session::Session;
use crate::tally::{Tally, id_of, must_be_countable, write_kept};

const KIND: &str = "latch";

/// Opens when so many parts are counted, and stays open. Made by
/// [`Session::latch`].
#[derive(Debug, Clone)]
pub struct Latch {
    session: Session,
    name: String,
    total: u32,
    keep: Option<Duration>,
}

impl Session {
    /// A latch that opens when so many parts are counted. The name is a mutex with
    /// a memo; nothing else may use it, and all parties must name the same number,
    /// at most [`MOST_MEMBERS`](crate::MOST_MEMBERS).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// let session = leasehold::connect("memory:").await?;
    /// let loaded = session.latch("shop/loaded", 2);
    /// loaded.count_down_as("prices").await?;
    /// loaded.count_down_as("prices").await?; // again is once
    /// assert_eq!(loaded.left().await?, 1);
    /// loaded.count_down_as("stock").await?;
    /// loaded.wait().await
    /// # }
    /// ```
    pub fn latch(&self, name: impl AsRef<str>, total: u32) -> Latch {
        Latch {
            session: self.clone(),
            name: name.as_ref().to_owned(),
            total,
            keep: None,
        }
    }
}

impl Latch {
    /// Has the store forget it so long after the last count: then it is as if it had
    /// never been used. For names that do not come again, such as one for each build;
    /// without this something is left of every name for good. All parties should say
    /// the same.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Counts one part, and says how many are left.
    ///
    /// A process that is killed on the way, or hears that the effect is unknown,
    /// cannot know whether it was counted; where that matters, give the part a name
    /// with [`count_down_as`](Self::count_down_as).
    ///
    /// # Errors
    /// `Conflict` if the name is in use for something else or with another number;
    /// `Usage` if the number or the name is not allowed; `Unsupported` if the store
    /// keeps no memos; else as for [`Mutex::lock`](crate::Mutex::lock) and
    /// [`Guard::write_memo`](crate::Guard::write_memo).
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the part is counted.
    pub async fn count_down(&self) -> Result<u32> {
        self.count(&[random_u64()]).await
    }

    /// Counts so many parts, all or none; says how many are left then.
    ///
    /// # Errors
    /// As for [`count_down`](Self::count_down).
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the parts are counted.
    pub async fn count_down_by(&self, parts: u32) -> Result<u32> {
        let ids: Vec<_> = (0..parts.min(self.total)).map(|_| random_u64()).collect();
        self.count(&ids).await
    }

    /// Counts the part of this name, once however often it is asked, by whomever.
    ///
    /// # Errors
    /// As for [`count_down`](Self::count_down).
    ///
    /// # Cancel safety
    /// Asking again is safe.
    pub async fn count_down_as(&self, part: impl AsRef<str>) -> Result<u32> {
        self.count(&[id_of(part.as_ref())]).await
    }

    async fn count(&self, ids: &[u64]) -> Result<u32> {
        // Says at once if the store or the name is of no use.
        let tally = self.tally().await?;
        if tally.left() == 0 || ids.iter().all(|id| tally.ids.contains(id)) {
            return Ok(tally.left());
        }
        let guard = self.session.mutex(&self.name).lock().await?;
        let mut tally = self.tally().await?;
        let before = tally.left();
        for id in ids {
            if tally.left() > 0 {
                tally.ids.insert(*id);
            }
        }
        if tally.left() < before {
            write_kept(&guard, &tally.write(KIND), self.keep).await?;
        }
        // It is counted, whatever becomes of the lock: an error would have it counted
        // once more.
        drop(guard.release().await);
        Ok(tally.left())
    }

    /// How many parts are left.
    ///
    /// # Errors
    /// As for [`count_down`](Self::count_down).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn left(&self) -> Result<u32> {
        Ok(self.tally().await?.left())
    }

    /// Waits until it is open. No store tells of that: it looks now and then, at
    /// least twenty times in a ttl or once a second.
    ///
    /// # Errors
    /// As for [`count_down`](Self::count_down).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wait(&self) -> Result<()> {
        let look = || async { Ok((self.tally().await?.left() == 0).then_some(())) };
        until_seen(self.session.core(), &self.doing(), look).await
    }

    /// Waits for at most this long.
    ///
    /// # Errors
    /// `TimedOut`; else as for [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wait_within(&self, longest: Duration) -> Result<()> {
        within(longest, || self.doing(), self.wait()).await
    }

    /// Closes it: nothing is counted any more. Whoever waits and has not looked
    /// since it was open waits again.
    ///
    /// # Errors
    /// As for [`count_down`](Self::count_down).
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is closed.
    pub async fn reset(&self) -> Result<()> {
        self.tally().await?;
        let guard = self.session.mutex(&self.name).lock().await?;
        write_kept(&guard, "", self.keep).await?;
        guard.release().await
    }

    async fn tally(&self) -> Result<Tally> {
        must_be_countable(self.total, || self.doing())?;
        let name = Name::new(&self.name)?;
        let Some(memo) = memo::read(self.session.core(), &name).await?.memo else {
            return Ok(Tally::of(self.total));
        };
        let conflict = |why: String| Error::new(ErrorKind::Conflict, self.doing(), why);
        let tally = Tally::read(KIND, &memo.bytes).ok_or_else(|| {
            conflict("the name's memo is not that of a latch: choose another name".into())
        })?;
        match tally.total == self.total {
            true => Ok(tally),
            false => Err(conflict(format!(
                "{} parts here, but the latch is in use with {}",
                self.total, tally.total
            ))),
        }
    }

    fn doing(&self) -> String {
        format!("wait for the latch {}", self.name)
    }
}
