//! Reading without a lock: a stamp says afterwards whether a writer came between.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Weak};

use crate::core::Core;
use crate::engine::Mark;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::memo::insist;
use crate::mutex::Target;
use crate::name::Name;
use crate::phase::Phase;
use crate::rwlock::RwLock;
use crate::tally::id_of;

/// When somebody began to read without a lock. Made by [`RwLock::stamp`].
#[derive(Debug, Clone)]
pub struct Stamp {
    name: Name,
    /// Whose it is: what a mark says may hold for one connection only.
    core: Weak<Core>,
    mark: Option<Mark>,
}

impl Stamp {
    /// Whether it can be good at all: not if a writer held the lock, or waited
    /// for it. Then there is no point in reading.
    pub fn may_be_good(&self) -> bool {
        self.mark.is_some()
    }

    /// The stamp as one word, for another session or process on the same store;
    /// [`RwLock::validate_word`] reads it. `None` if it cannot be good.
    ///
    /// # Errors
    /// `Unsupported` if the store's stamps are good for one session only.
    pub fn word(&self) -> Result<Option<StampWord>> {
        let promises = self.core.upgrade().map(|core| core.promises);
        if !promises.is_some_and(|promises| promises.stamp_word) {
            return Err(no_words(&self.name));
        }
        let word = |mark: &Mark| StampWord {
            check: check(self.name.as_str(), mark),
            mark: mark.clone(),
        };
        Ok(self.mark.as_ref().map(word))
    }
}

/// A stamp as one word, with `Display` and `FromStr`. Made by [`Stamp::word`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StampWord {
    /// Of the lock's name and the mark, so that one which is cut off, or is meant
    /// for another lock, is not taken for one that is spoilt.
    check: u64,
    mark: Mark,
}

impl fmt::Display for StampWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = self.mark.0.replace(' ', ".");
        write!(f, "{:016x}-{mark}", self.check)
    }
}

impl FromStr for StampWord {
    type Err = ParseStampError;

    fn from_str(text: &str) -> Result<Self, ParseStampError> {
        let (check, mark) = text.split_once('-').ok_or(ParseStampError)?;
        let is_mark = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let is_check = check.len() == 16 && check.chars().all(|c| c.is_ascii_hexdigit());
        if !is_check || mark.is_empty() || !mark.chars().all(is_mark) {
            return Err(ParseStampError);
        }
        Ok(Self {
            check: u64::from_str_radix(check, 16).map_err(|_| ParseStampError)?,
            mark: Mark(mark.replace('.', " ")),
        })
    }
}

/// The text is not a stamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a stamp: expected 16 hexadecimal digits, a dash and a mark, as it was printed")]
pub struct ParseStampError;

impl RwLock {
    /// Begins to read without the lock: nobody waits for it, nobody is held up.
    /// Read, then ask [`validate`](Self::validate) whether a writer came between.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// let session = leasehold::connect("memory:").await?;
    /// let prices = session.rwlock("shop/prices");
    /// let stamp = prices.stamp().await?;
    /// let seen = "what was read";
    /// if !prices.validate(&stamp).await? {
    ///     let guard = prices.read().await?; // a writer came: read under the lock
    ///     guard.release().await?;
    /// }
    /// # drop(seen); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if the store cannot tell; `Usage` if the name is not
    /// allowed; `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn stamp(&self) -> Result<Stamp> {
        let Target { anchor, name, .. } = self.target();
        let name = Name::new(name)?;
        let mark = mark(&anchor.core, &name).await?;
        let core = Arc::downgrade(&anchor.core);
        Ok(Stamp { name, core, mark })
    }

    /// Whether no writer was granted the lock since the stamp was made. What was
    /// read between is then as good as if it was read under the lock. `false`
    /// may also be said though no writer came, never `true` though one did, as
    /// far as the store itself does not forget whom it granted what.
    ///
    /// # Errors
    /// `Usage` if the stamp is of another lock or session; else as for
    /// [`stamp`](Self::stamp).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn validate(&self, stamp: &Stamp) -> Result<bool> {
        let Target { anchor, name, .. } = self.target();
        let is_ours = std::ptr::eq(stamp.core.as_ptr(), Arc::as_ptr(&anchor.core));
        if !is_ours || stamp.name.as_str() != &**name {
            let why = "the stamp was made on another lock or by another session";
            return Err(Error::new(ErrorKind::Usage, doing(name), why));
        }
        match &stamp.mark {
            None => Ok(false),
            Some(then) => Ok(mark(&anchor.core, &stamp.name).await?.as_ref() == Some(then)),
        }
    }

    /// Whether no writer was granted the lock since another session, on the same
    /// store, made the stamp that this word is; see [`validate`](Self::validate).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// let session = leasehold::connect("memory:").await?;
    /// let prices = session.rwlock("shop/prices");
    /// let word = prices.stamp().await?.word()?.expect("nobody writes").to_string();
    /// // Elsewhere, later:
    /// let word = word.parse().expect("it is a stamp");
    /// assert!(prices.validate_word(&word).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Usage` if the word is of another lock; `Unsupported` if the store's stamps
    /// are good for one session only; else as for [`stamp`](Self::stamp).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn validate_word(&self, word: &StampWord) -> Result<bool> {
        let Target { anchor, name, .. } = self.target();
        let name = Name::new(name)?;
        if word.check != check(name.as_str(), &word.mark) {
            let why = "the stamp is of another lock, or not whole";
            return Err(Error::new(ErrorKind::Usage, doing(name.as_str()), why));
        }
        let promises = &anchor.core.promises;
        if promises.stamp && !promises.stamp_word {
            return Err(no_words(&name));
        }
        Ok(mark(&anchor.core, &name).await?.as_ref() == Some(&word.mark))
    }
}

fn check(name: &str, mark: &Mark) -> u64 {
    id_of(&format!("{name}\n{}", mark.0))
}

fn no_words(name: &Name) -> Error {
    let why = "a stamp of this store is good for the session that made it only; those of \
               sqlite:, postgres: and zk: can be handed on";
    Error::new(ErrorKind::Unsupported, doing(name.as_str()), why)
}

async fn mark(core: &Core, name: &Name) -> Result<Option<Mark>> {
    let doing = doing(name.as_str());
    if !core.promises.stamp {
        return Err(unsupported(doing));
    }
    let asking = || async {
        match core.phases.current() {
            Phase::Open(term) => core.engine.stamp(&term.lease, name).await,
            Phase::Between => {
                let why = "the lease was lost and there is no other yet";
                let error = Error::new(ErrorKind::Unavailable, &*doing, why);
                Err(error.effect_is(Effect::None))
            }
            Phase::Closed => Err(core.closed_error(doing.clone())),
        }
    };
    tokio::select! {
        biased;
        () = core.closed() => Err(core.closed_error(doing.clone())),
        mark = insist(core, &doing, asking) => Ok(mark?.0),
    }
}

fn doing(name: &str) -> String {
    format!("read {name} without a lock")
}

/// What an engine without stamps says.
pub(crate) fn unsupported(doing: impl Into<String>) -> Error {
    let why = "this store cannot tell whether a writer came between; those of sqlite:, redis: \
               (layout=queue), etcd:, zk:, postgres: and mysql: can";
    Error::new(ErrorKind::Unsupported, doing, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_back_and_nonsense_is_refused() {
        for mark in ["17", "4294967301 -1 3", "0d3e-77aa 9223372036854775807"] {
            let mark = Mark(mark.into());
            let word = StampWord {
                check: check("shop/prices", &mark),
                mark,
            };
            let text = word.to_string();
            assert!(!text.contains(char::is_whitespace), "{text}");
            assert_eq!(text.parse(), Ok(word));
        }
        for text in [
            "",
            "17",
            "0123456789abcdef",
            "0123456789abcdef-",
            "0123456789abcdeg-17",
            "123-17",
            "0123456789abcdef-1 7",
            "0123456789abcdef-1\n",
        ] {
            assert_eq!(text.parse::<StampWord>(), Err(ParseStampError), "{text:?}");
        }
    }
}
