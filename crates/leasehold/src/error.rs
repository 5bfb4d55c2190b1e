//! What can go wrong: what was being done, on what, why, and whether the store
//! did it all the same.

use std::fmt;

use crate::fence::Stale;
use crate::guard::Lost;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// An error: `enqueue jobs/nightly on sqlite locks.db: unavailable: disk is full`.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    effect: Effect,
    doing: String,
    on: Option<String>,
    why: String,
    source: Option<Source>,
}

/// What sort of trouble it is, for code that has to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is not allowed: a lock name, a duration, a weight.
    Usage,
    /// The URL, an option or the store itself is not what it should be.
    Config,
    /// The store cannot be reached or cannot answer now.
    Unavailable,
    /// The store refuses us: permissions, password, read-only.
    Denied,
    /// The wait ended at its deadline; the lock is held elsewhere.
    TimedOut,
    /// Another party uses the name in another way, such as another capacity.
    Conflict,
    /// The lock was lost, and why.
    Lost(Lost),
    /// A fenced resource refuses a holder: another came later.
    Stale(Stale),
    /// A message was completed by another transaction.
    AlreadyDone,
    /// The session is closed.
    Closed,
    /// This store does not promise what was asked.
    Unsupported,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usage => "not allowed",
            Self::Config => "bad configuration",
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::TimedOut => "timed out",
            Self::Conflict => "conflict",
            Self::Lost(_) => "lost",
            Self::Stale(_) => "stale",
            Self::AlreadyDone => "already done",
            Self::Closed => "closed",
            Self::Unsupported => "not supported",
        })
    }
}

/// Whether the request took effect in the store although it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The store did nothing.
    None,
    /// The store may have done it.
    Unknown,
}

impl Error {
    /// An error that certainly had no effect on the store.
    pub fn new(kind: ErrorKind, doing: impl Into<String>, why: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            effect: Effect::None,
            doing: doing.into(),
            on: None,
            why: why.into(),
            source: None,
        }))
    }

    /// A fenced resource refused this.
    pub(crate) fn stale(stale: Stale, doing: impl Into<String>) -> Self {
        Self::new(ErrorKind::Stale(stale), doing, stale.to_string()).from_source(stale)
    }

    /// Says on which store it happened. Never put a secret here.
    #[must_use]
    pub fn on(mut self, store: impl Into<String>) -> Self {
        self.0.on = Some(store.into());
        self
    }

    /// Says whether the store may have done it.
    #[must_use]
    pub fn effect_is(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// Keeps the error of the store's own client.
    #[must_use]
    pub fn from_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What sort of trouble it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the store may have done what was asked.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// Why, without what was being done and on which store.
    pub fn why(&self) -> &str {
        &self.0.why
    }

    /// Whether asking again may help: the store could not be reached.
    pub(crate) fn is_passing(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            doing,
            on,
            why,
            ..
        } = &*self.0;
        write!(f, "{doing}")?;
        if let Some(on) = on {
            write!(f, " on {on}")?;
        }
        write!(f, ": {kind}: {why}")
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            kind,
            effect,
            source,
            ..
        } = &*self.0;
        let mut debug = f.debug_struct("Error");
        debug
            .field("text", &self.to_string())
            .field("kind", kind)
            .field("effect", effect);
        if let Some(source) = source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source: &(dyn std::error::Error + 'static) = self.0.source.as_deref()?;
        Some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_on_what_and_why() {
        let error = Error::new(
            ErrorKind::Unavailable,
            "enqueue jobs/nightly",
            "disk is full",
        )
        .on("sqlite locks.db")
        .effect_is(Effect::Unknown);
        assert_eq!(
            error.to_string(),
            "enqueue jobs/nightly on sqlite locks.db: unavailable: disk is full"
        );
        assert_eq!(error.effect(), Effect::Unknown);
    }

    #[test]
    fn an_error_keeps_its_source() {
        let source = std::io::Error::other("no route");
        let error = Error::new(ErrorKind::Unavailable, "renew", "no route").from_source(source);
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "no route");
    }
}
