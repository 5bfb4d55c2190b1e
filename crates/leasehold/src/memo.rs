//! The memo: a few bytes per name that only the holder can write and anybody
//! can read. It outlives the hold.

use std::time::Duration;

use crate::backoff;
use crate::core::Core;
use crate::engine::{Memo, Noted, Reading};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guard::{Guard, Lost};
use crate::hold::Hold;
use crate::name::Name;
use crate::promises::Promises;
use crate::random::random_u64;
use crate::reaper::limited;
use crate::session::Session;

/// How long a memo may be, in bytes.
pub const LONGEST_MEMO: usize = 4096;
/// How long a memo that ends is kept at least. etcd counts in seconds.
const SHORTEST_RETENTION: Duration = Duration::from_secs(1);
/// And at most: what comes after it fits into every store's numbers.
const LONGEST_RETENTION: Duration = Duration::from_secs(10 * 366 * 86_400);
/// How long the reason of a loss may take.
const NEWS: Duration = Duration::from_millis(250);

impl Memo {
    /// What was written, as text; whatever is no UTF-8 is replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Whether it is written under the grant with this order. A request that comes
    /// late may have made a claim anew, with a greater order, after it was given
    /// back; then whoever held in between has a greater token than this memo.
    pub(crate) fn is_of(&self, order: u64, tokens_per_grant: u32) -> bool {
        let next = order.saturating_add(tokens_per_grant.into());
        (order..next).contains(&self.token.get())
    }

    /// `TOKEN EDITION BYTES`, for stores that keep it in one piece.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn to_record(&self) -> Vec<u8> {
        let mut record = format!("{} {} ", self.token, self.edition).into_bytes();
        record.extend(&self.bytes);
        record
    }

    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn from_record(record: &[u8]) -> Option<Self> {
        let mut parts = record.splitn(3, |&byte| byte == b' ');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let (token, edition) = (crate::Token::new(number()?), number()?);
        let bytes = parts.next()?.to_vec();
        Some(Self {
            token,
            edition,
            bytes,
        })
    }
}

impl Reading {
    /// From what the store has. A memo that was removed is still there, without
    /// bytes: its edition keeps a request that comes late from bringing back
    /// what was removed.
    pub(crate) fn of(kept: Option<Memo>, time: Option<Duration>) -> Self {
        let memo = kept.filter(|memo| !memo.bytes.is_empty());
        Self { memo, time }
    }
}

impl Guard {
    /// Writes the memo of this lock, which stays when the lock is given back.
    /// The store checks, in one step with the write, that this guard's claim
    /// holds. No bytes remove it.
    ///
    /// A guard that has written a memo gives its lock back to the store, not to
    /// the next task of this process.
    ///
    /// # Errors
    /// `Lost` if the lock is lost: nothing was written, unless the effect is
    /// unknown. `Usage` if there are more than [`LONGEST_MEMO`] bytes or others
    /// may hold the lock at the same time, as readers do. `Unsupported` if the
    /// store keeps no memos.
    /// `Unavailable` if the store does not answer in time; whether it was
    /// written is then unknown, and writing again is safe.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the memo is written; a later
    /// write of the same guard replaces it in any case.
    pub async fn write_memo(&self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.note(bytes.as_ref(), None).await
    }

    /// The same, but the store keeps the memo for at least this long and not much
    /// longer, by its own clock, unless it is written again. Then nothing is left
    /// of it. How much longer: see the page of the store.
    ///
    /// # Errors
    /// As for [`write_memo`](Self::write_memo); `Unsupported` also if the store
    /// keeps memos for good only; `Usage` if it is for less than a second, or for
    /// more than ten years.
    ///
    /// # Cancel safety
    /// As for [`write_memo`](Self::write_memo).
    pub async fn write_memo_for(&self, bytes: impl AsRef<[u8]>, keep: Duration) -> Result<()> {
        let doing = || format!("write the memo of {}", self.name());
        check_retention(&self.hold().core().promises, keep, doing)?;
        self.note(bytes.as_ref(), Some(keep)).await
    }

    async fn note(&self, bytes: &[u8], keep: Option<Duration>) -> Result<()> {
        let hold = self.hold();
        let core = hold.core();
        let doing = format!("write the memo of {}", self.name());
        let usage = |why: String| Err(Error::new(ErrorKind::Usage, &*doing, why));
        if !core.promises.memo {
            return Err(unsupported(doing));
        }
        if bytes.len() > LONGEST_MEMO {
            let length = bytes.len();
            return usage(format!(
                "{length} bytes; at most {LONGEST_MEMO} are allowed"
            ));
        }
        if !hold.is_exclusive() {
            return usage("others may hold this lock too; use a mutex or a writer".into());
        }
        hold.bind();
        let memo = Memo {
            token: self.token(),
            edition: hold.next_edition(),
            bytes: bytes.to_owned(),
        };
        let (engine, claim) = (&core.engine, hold.claim());
        let writing = insist(core, &doing, || match keep {
            None => engine.write_memo(claim, &memo),
            Some(keep) => engine.write_memo_for(claim, &memo, keep),
        });
        let noted = tokio::select! {
            biased;
            lost = self.lost() => {
                let error = self.loss(lost, "write the memo of");
                return Err(error.effect_is(Effect::Unknown));
            }
            noted = writing => noted?,
        };
        match noted {
            (Noted::Written, _) => Ok(()),
            (Noted::NotHeld, effect) => {
                let lost = losing(hold).await;
                Err(self.loss(lost, "write the memo of").effect_is(effect))
            }
        }
    }
}

impl Session {
    /// The memo of a lock, and what the store's clock shows, if it has one.
    ///
    /// # Errors
    /// `Usage` for a bad name, `Unsupported` if the store keeps no memos,
    /// `Conflict` if something else is in its place, `Unavailable` if the store
    /// cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn memo(&self, name: impl AsRef<str>) -> Result<Reading> {
        read(self.core(), &Name::new(name)?).await
    }
}

pub(crate) async fn read(core: &Core, name: &Name) -> Result<Reading> {
    let doing = format!("read the memo of {name}");
    if !core.promises.memo {
        return Err(unsupported(doing));
    }
    tokio::select! {
        biased;
        () = core.closed() => Err(core.closed_error(doing)),
        reading = insist(core, &doing, || core.engine.read_memo(name)) => Ok(reading?.0),
    }
}

/// The store says that the hold is lost. The watchdog finds out why, if it can do
/// that at once; another may hold already, so nobody waits for it any longer.
async fn losing(hold: &Hold) -> Lost {
    let core = hold.core();
    let gone = GoneOnDrop(hold);
    core.doubt.notify_one();
    let brief = NEWS.min(core.settings.ttl / 20);
    let told = tokio::time::timeout(brief, hold.until_lost()).await;
    drop(gone);
    told.ok().or_else(|| hold.lost()).unwrap_or(Lost::Gone)
}

/// Also if nobody waits for the reason to the end.
struct GoneOnDrop<'a>(&'a Hold);

impl Drop for GoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lose(Lost::Gone, None);
    }
}

/// What lies in the place of a memo and is none. To take it for no memo would
/// have a slot run again, or a leader begin with the first term.
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) fn unreadable(doing: impl Into<String>) -> Error {
    let why = "what is there is not a memo as this version writes it: another program wrote it, \
               or a newer leasehold";
    Error::new(ErrorKind::Conflict, doing, why)
}

/// What an engine without memos says.
pub(crate) fn unsupported(doing: impl Into<String>) -> Error {
    let why = "this store keeps no memos; those of sqlite:, redis: (layout=queue), etcd:, zk:, \
               postgres: and mysql: do";
    Error::new(ErrorKind::Unsupported, doing, why)
}

/// What an engine says whose memos do not end.
pub(crate) fn kept_for_good(doing: impl Into<String>) -> Error {
    let why = "this store keeps no memos for a time; those of sqlite:, redis: (layout=queue), \
               etcd:, zk:, postgres: and mysql: do";
    Error::new(ErrorKind::Unsupported, doing, why)
}

/// Whether the store can keep a memo for so long.
pub(crate) fn check_retention(
    promises: &Promises,
    keep: Duration,
    doing: impl Fn() -> String,
) -> Result<()> {
    if !promises.retention {
        return Err(kept_for_good(doing()));
    }
    if !(SHORTEST_RETENTION..=LONGEST_RETENTION).contains(&keep) {
        let why = format!("kept for {keep:?}; from a second to ten years is allowed");
        return Err(Error::new(ErrorKind::Usage, doing(), why));
    }
    Ok(())
}

/// Asks again while the store cannot be reached, as long as a wait would. Also
/// says whether a request before the last one may have had an effect.
pub(crate) async fn insist<T, F: Future<Output = Result<T>>>(
    core: &Core,
    doing: &str,
    request: impl Fn() -> F,
) -> Result<(T, Effect)> {
    let (start, mut effect) = (core.clock.now(), Effect::None);
    for attempt in 0.. {
        let silence = || {
            let why = "the store does not answer";
            let error = Error::new(ErrorKind::Unavailable, doing, why);
            Err(error.effect_is(Effect::Unknown))
        };
        let answer = limited(core, request()).await;
        let error = match answer.unwrap_or_else(silence) {
            Ok(answer) => return Ok((answer, effect)),
            Err(error) => error,
        };
        if error.effect() == Effect::Unknown {
            effect = Effect::Unknown;
        }
        if !error.is_passing() || core.clock.now().since(start) >= core.settings.patience {
            return Err(error.effect_is(effect));
        }
        let first = Duration::from_millis(20);
        let pause = backoff::pause(attempt, first, core.settings.ttl / 3, random_u64());
        core.clock.sleep_until(core.clock.now() + pause).await;
    }
    Err(core.closed_error(doing.to_owned()))
}

#[cfg(all(test, any(feature = "etcd", feature = "zookeeper")))]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_nothing_else_is() {
        for bytes in [&b""[..], b"a b", b" \0\xff"] {
            let memo = Memo {
                token: crate::Token::new(7),
                edition: 2,
                bytes: bytes.to_vec(),
            };
            assert_eq!(Memo::from_record(&memo.to_record()), Some(memo));
        }
        for record in ["", "7", "7 2", "x 2 a", "leasehold memo 2\n7 2 a"] {
            assert_eq!(Memo::from_record(record.as_bytes()), None, "{record}");
        }
    }
}
