//! What `lua/acquire.lua` answers.

use std::time::Duration;

/// What came of asking for the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Held {
        token: u64,
    },
    /// Another holds it: until when, unless that never ends, and which one.
    Busy {
        left: Option<Duration>,
        holder: String,
    },
    Late {
        now: u64,
    },
    /// The key is no string.
    Type(String),
    /// None of our scripts says this.
    Strange,
}

impl Answer {
    pub(super) fn read(answer: &[String]) -> Self {
        Self::parse(answer).unwrap_or(Self::Strange)
    }

    fn parse(answer: &[String]) -> Option<Self> {
        let words: Vec<&str> = answer.iter().map(String::as_str).collect();
        Some(match words[..] {
            ["held", token] => Self::Held {
                token: token.parse().ok()?,
            },
            ["busy", left, holder] => Self::Busy {
                left: time_left(left)?,
                holder: holder.to_owned(),
            },
            ["late", now] => Self::Late {
                now: now.parse().ok()?,
            },
            ["type", kind] => Self::Type(kind.to_owned()),
            _ => return None,
        })
    }
}

/// What `PTTL` says, -1 being never.
pub(super) fn time_left(millis: &str) -> Option<Option<Duration>> {
    let millis: i64 = millis.parse().ok()?;
    let left = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    Some((millis != -1).then_some(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Answer {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        Answer::read(&words)
    }

    #[test]
    fn answers_are_understood() {
        assert_eq!(read(&["held", "64"]), Answer::Held { token: 64 });
        let busy = |left| Answer::Busy {
            left,
            holder: "x".into(),
        };
        let short = Some(Duration::from_millis(1500));
        assert_eq!(read(&["busy", "1500", "x"]), busy(short));
        assert_eq!(read(&["busy", "-1", "x"]), busy(None));
        assert_eq!(read(&["late", "5"]), Answer::Late { now: 5 });
        for strange in [&["held"][..], &["held", "x"], &[], &["busy", "", "x"]] {
            assert_eq!(read(strange), Answer::Strange);
        }
    }

    #[test]
    fn the_library_that_owns_a_key_is_named() {
        assert!(crate::redis::answer::not_a_lock("hash").contains("Redisson"));
        assert!(crate::redis::answer::not_a_lock("list").contains("a list"));
    }
}
