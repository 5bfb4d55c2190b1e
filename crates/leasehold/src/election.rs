//! One leader among many: a lock, and its memo for who that is.

mod observer;
mod record;

use tokio::sync::Mutex as AsyncMutex;

pub use self::observer::{Observer, Sighting};
use self::record::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;
use crate::guard::{Guard, Lost};
use crate::name::Name;
use crate::session::Session;

/// How long a leader's value may be, in bytes: two of them fit into a memo.
pub const LONGEST_VALUE: usize = 1900;

/// One leader among many. Made by [`Session::election`].
#[derive(Debug, Clone)]
pub struct Election {
    session: Session,
    name: String,
}

/// Whoever led, or leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The how-manieth leader it is, from 1.
    pub term: u64,
    /// Its fencing token: greater than that of every leader before it.
    pub token: Token,
    /// The random part of its fence.
    pub holder: u64,
    /// What it says of itself.
    pub value: Vec<u8>,
}

impl Leader {
    /// What it says of itself, as text; whatever is no UTF-8 is replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.value)
    }
}

impl Session {
    /// One leader among all who name the same election. The name is a mutex
    /// with a memo; nothing else may use it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// let session = leasehold::connect("memory:").await?;
    /// let election = session.election("shop/leader");
    /// let leadership = election.campaign("10.0.0.5:8080").await?;
    /// let leader = election.leader().await?.expect("we lead");
    /// assert_eq!(leader.token, leadership.token());
    /// assert_eq!(leader.text(), "10.0.0.5:8080");
    /// leadership.resign().await
    /// # }
    /// ```
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election {
            session: self.clone(),
            name: name.as_ref().to_owned(),
        }
    }
}

impl Election {
    /// Waits until we lead, and says so with this value. Nobody else leads
    /// until the leadership is resigned, dropped or lost.
    ///
    /// # Errors
    /// `Usage` if the name is not allowed or the value is longer than
    /// [`LONGEST_VALUE`]; `Conflict` if the name is in use for something else;
    /// `Unsupported` if the store keeps no memos; `Unavailable` if the store
    /// cannot be reached.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub async fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership> {
        let value = value.as_ref();
        must_be_short(&self.name, value)?;
        // Says at once if the store or the name is of no use.
        self.record().await?;
        loop {
            let guard = self.session.mutex(&self.name).lock().await?;
            let mut record = self.record().await?;
            record.begin(Leader {
                term: 0,
                token: guard.token(),
                holder: guard.fence().holder,
                value: value.to_owned(),
            });
            match guard.write_memo(record.write()).await {
                Ok(()) => {
                    let record = AsyncMutex::new(record);
                    return Ok(Leadership { guard, record });
                }
                // Lost before anybody knew that we had it.
                Err(error) if matches!(error.kind(), ErrorKind::Lost(lost) if lost != Lost::Closed) =>
                    {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Who leads now, if anybody does.
    ///
    /// # Errors
    /// As for [`campaign`](Self::campaign).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        Ok(self.look().await?.0)
    }

    /// Every leader in order, and when there is none.
    pub fn observe(&self) -> Observer {
        Observer::new(self.clone())
    }

    /// Who leads, and the latest leaders, oldest first.
    async fn look(&self) -> Result<(Option<Leader>, Vec<Leader>)> {
        let mut held = self.holder().await?;
        let record = self.record().await?;
        let newest = record.newest().cloned();
        // The lock may have changed hands between the two looks. Whoever holds
        // it after it wrote the memo leads; whoever does not has led.
        if let Some(newest) = &newest
            && held != Some(newest.holder)
        {
            held = self.holder().await?;
        }
        let leader = newest.filter(|newest| held == Some(newest.holder));
        Ok((leader, record.into_leaders()))
    }

    /// With proof where the store can give it, so that a server which was replaced and
    /// does not know it names no leader.
    async fn holder(&self) -> Result<Option<u64>> {
        let core = self.session.core();
        if core.promises.holders {
            let holders = core.engine.holders(&Name::new(&self.name)?).await?;
            return Ok(holders.first().copied());
        }
        let queue = self.session.inspector().queue(&self.name).await?;
        Ok(queue.holders().next().map(|claimant| claimant.holder))
    }

    async fn record(&self) -> Result<Record> {
        let memo = self.session.memo(&self.name).await?.memo;
        let Some(memo) = memo else {
            return Ok(Record::default());
        };
        Record::read(&memo.bytes).ok_or_else(|| {
            let why = "the name's memo is not that of an election: choose another name";
            Error::new(ErrorKind::Conflict, format!("elect {}", self.name), why)
        })
    }
}

/// Proof that we lead, until it is resigned, dropped or lost.
#[must_use = "the leadership is given back when it is dropped"]
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
    record: AsyncMutex<Record>,
}

impl Leadership {
    /// The hold behind it: `check`, `lost`, `run` and the rest.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The fencing token: greater than that of every leader before.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// The how-manieth leader we are.
    pub async fn term(&self) -> u64 {
        let record = self.record.lock().await;
        record.newest().map_or(0, |leader| leader.term)
    }

    /// Says something else of ourselves.
    ///
    /// # Errors
    /// `Lost` if the leadership is lost; else as for
    /// [`Guard::write_memo`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether it is said.
    pub async fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<()> {
        let value = value.as_ref();
        must_be_short(self.guard.name(), value)?;
        let mut record = self.record.lock().await;
        record.say(value);
        self.guard.write_memo(record.write()).await
    }

    /// Lets another lead; returns when the store knows.
    ///
    /// # Errors
    /// As for [`Guard::release`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves it to the background.
    pub async fn resign(self) -> Result<()> {
        self.guard.release().await
    }
}

fn must_be_short(name: &str, value: &[u8]) -> Result<()> {
    if value.len() <= LONGEST_VALUE {
        return Ok(());
    }
    let why = format!(
        "a value of {} bytes; at most {LONGEST_VALUE} are allowed",
        value.len()
    );
    Err(Error::new(ErrorKind::Usage, format!("elect {name}"), why))
}
