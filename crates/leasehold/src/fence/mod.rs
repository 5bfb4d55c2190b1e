//! The fencing token, and the fence that carries it to the protected resource.
//!
//! No lock survives a paused process: its lease runs out, the next holder
//! works, and then the first one wakes up and writes. Only the resource can
//! stop it, by refusing a fence lower than the highest it has seen.

#[cfg(unix)]
mod file;
#[cfg(feature = "http")]
mod key;
mod mark;
#[cfg(feature = "object_store")]
mod object;
mod passage;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlx-sqlite"))]
mod sql;

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

#[cfg(unix)]
pub use file::{ClaimedFile, FencedFile};
#[cfg(feature = "http")]
pub use key::FenceKey;
pub use mark::{Policy, Stale, access};
#[cfg(feature = "object_store")]
pub use object::{ClaimedObject, FencedObject};
pub use passage::{Ending, Passage, Turn};
#[cfg(feature = "redis")]
pub use redis::{ClaimedRedis, FencedRedis};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlx-sqlite"))]
pub use sql::{ClaimedSql, FenceColumns, FenceDatabase, FencedSql};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlx-sqlite"))]
pub(crate) use sql::{Sort, outermost};

/// A fencing number. It grows with every grant on a lock's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// A token of this value; for engines and for reading one back.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, to hand to a database or another language.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Token {
    type Err = ParseIntError;
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        token.0
    }
}

/// What a holder shows to the resource it works on.
///
/// The token orders; the holder, random per claim, tells two holders apart
/// where a store's token could repeat (a split brain, a restored backup).
/// Fences compare by token first, then by holder. As text: `42-9f86d081884c7d65`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The fencing number.
    pub token: Token,
    /// Random per claim.
    pub holder: u64,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.token, self.holder)
    }
}

/// The text is not a fence such as `42-9f86d081884c7d65`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a fence: expected a number, a dash and 16 hexadecimal digits, such as 42-9f86d081884c7d65"
)]
pub struct ParseFenceError;

impl FromStr for Fence {
    type Err = ParseFenceError;

    fn from_str(text: &str) -> Result<Self, ParseFenceError> {
        let (token, holder) = text.split_once('-').ok_or(ParseFenceError)?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if holder.len() != 16 || !digits(holder) || !digits(token) {
            return Err(ParseFenceError);
        }
        Ok(Self {
            token: token.parse().map_err(|_| ParseFenceError)?,
            holder: u64::from_str_radix(holder, 16).map_err(|_| ParseFenceError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fence(token: u64, holder: u64) -> Fence {
        Fence {
            token: Token::new(token),
            holder,
        }
    }

    #[test]
    fn fences_are_ordered_by_token_then_by_holder() {
        assert!(fence(2, 0) > fence(1, u64::MAX));
        assert!(fence(1, 2) > fence(1, 1));
    }

    #[test]
    fn text_that_is_not_a_fence_is_refused() {
        for text in [
            "",
            "42",
            "-",
            "42-",
            "42-xyz",
            "-9f86d081884c7d65",
            "+42-9f86d081884c7d65",
            "42-9f86d081884c7d6",
            "42-+f86d081884c7d65",
            "99999999999999999999-9f86d081884c7d65",
        ] {
            assert_eq!(text.parse::<Fence>(), Err(ParseFenceError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_fence_survives_its_text_form(token: u64, holder: u64) {
            let fence = fence(token, holder);
            prop_assert_eq!(fence.to_string().parse(), Ok(fence));
        }
    }
}
