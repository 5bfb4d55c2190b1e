//! What the scripts answer when a lock is asked for, and what else may be at
//! its key.

use std::time::Duration;

use crate::error::{Error, ErrorKind};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Held { token: u64 },
    Busy { holder: String, left: Duration },
    Foreign { what: String },
    Late { now: u64 },
}

impl Answer {
    /// `None` if it is none of ours.
    pub(super) fn read(answer: &[String]) -> Option<Self> {
        let words: Vec<&str> = answer.iter().map(String::as_str).collect();
        Some(match words[..] {
            ["held", token] => Self::Held {
                token: token.parse().ok()?,
            },
            ["busy", holder, left] => Self::Busy {
                holder: holder.to_owned(),
                left: Duration::from_millis(left.parse().ok()?),
            },
            ["foreign", what] => Self::Foreign {
                what: what.to_owned(),
            },
            ["late", now] => Self::Late {
                now: now.parse().ok()?,
            },
            _ => return None,
        })
    }
}

/// The error for a key that is no `RLock`: whose it is, and what to do.
pub(super) fn foreign(what: &str, doing: String, store: &str) -> Error {
    let why = match what {
        "string" => {
            "the key is a string, which is the lock of redis-py, redsync, node-redlock, \
             RedLock.net, bsm/redislock or layout=plain, or a semaphore of Redisson; \
             use layout=plain or another name"
        }
        "rwlock" => {
            "the key is an RReadWriteLock of Redisson; it and an RLock of the same name do \
             not exclude each other; use another name"
        }
        "hash" => {
            "the key is a hash but no RLock of Redisson, perhaps its RMap or \
             RFasterMultiLock; use another name"
        }
        "list" => {
            "the key is a list, as the signal of python-redis-lock is, and no RLock of \
             Redisson; use another name"
        }
        "zset" => {
            "the key is a sorted set, as the semaphore of DistributedLock.Redis is, and no \
             RLock of Redisson; use another name"
        }
        what => {
            let why = format!("the key is a {what} and no RLock of Redisson; use another name");
            return Error::new(ErrorKind::Config, doing, why).on(store);
        }
    };
    Error::new(ErrorKind::Config, doing, why).on(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Option<Answer> {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        Answer::read(&words)
    }

    #[test]
    fn answers_are_read_and_garbage_is_not() {
        let left = Duration::from_millis(40);
        let holder = "them:1".to_owned();
        assert_eq!(
            read(&["busy", "them:1", "40"]),
            Some(Answer::Busy { holder, left })
        );
        assert_eq!(read(&["held", "7"]), Some(Answer::Held { token: 7 }));
        for garbage in [&["held"][..], &["held", "x"], &["busy", "a"], &[]] {
            assert_eq!(read(garbage), None);
        }
    }

    #[test]
    fn the_owner_of_a_key_is_named() {
        let says = |what: &str| foreign(what, "lock x".into(), "redis a").to_string();
        assert!(says("string").contains("redis-py"));
        assert!(says("rwlock").contains("RReadWriteLock"));
        assert!(says("stream").contains("a stream"));
    }
}
