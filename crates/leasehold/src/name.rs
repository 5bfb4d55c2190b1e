//! Lock names: what is allowed. Pure. Engines escape them as their store needs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// The longest name, in bytes of UTF-8.
pub(crate) const MAX_BYTES: usize = 512;

/// A lock's name: UTF-8, 1 to 512 bytes, no control characters, case-sensitive.
///
/// Slashes, spaces, braces, quotes, `%` and emoji are all fine and never make
/// two names share a lock.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks the text and makes it a name.
    ///
    /// # Errors
    /// `Usage` if the text is empty, longer than 512 bytes or has a control
    /// character.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        match fault(text) {
            None => Ok(Self(text.into())),
            Some(why) => Err(Error::new(ErrorKind::Usage, "read a lock name", why)),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn fault(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("the name is empty; a name has 1 to 512 bytes".into());
    }
    if text.len() > MAX_BYTES {
        let bytes = text.len();
        return Some(format!(
            "the name has {bytes} bytes; at most {MAX_BYTES} are allowed"
        ));
    }
    let (at, control) = text.char_indices().find(|(_, c)| c.is_control())?;
    let code = u32::from(control);
    Some(format!(
        "the name has the control character U+{code:04X} at byte {at}; remove it"
    ))
}

impl FromStr for Name {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_and_odd_names_are_allowed() {
        for text in [
            "a",
            "jobs/nightly",
            "{x}",
            "it's 100%",
            "🔒",
            "a\u{a0}b",
            "'; --",
        ] {
            assert_eq!(Name::new(text).unwrap().as_str(), text);
        }
        assert!(Name::new("x".repeat(MAX_BYTES)).is_ok());
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        let why = |text: &str| Name::new(text).unwrap_err().to_string();
        assert!(why("").contains("empty"));
        assert!(why(&"x".repeat(513)).contains("513 bytes"));
        assert!(why("a\nb").contains("U+000A at byte 1"));
        assert!(why("a\u{85}").contains("U+0085"));
        assert_eq!(Name::new("").unwrap_err().kind(), ErrorKind::Usage);
    }

    proptest! {
        #[test]
        fn any_text_is_either_kept_as_it_is_or_refused(text in "\\PC{0,600}") {
            let allowed = (1..=MAX_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
            match Name::new(&text) {
                Ok(name) => { prop_assert!(allowed); prop_assert_eq!(name.as_str(), text.as_str()); }
                Err(_) => prop_assert!(!allowed),
            }
        }
    }
}
