//! What the scripts answer about one claim.

use std::time::Duration;

use ::redis::Value;

use super::inbox::Mine;
use crate::clock::boot_time;
use crate::engine::Standing;
use crate::error::{Effect, Error, ErrorKind};
use crate::fence::Token;
use crate::rule::Watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Held {
        order: u64,
        /// There is no other claim, or was none at that time.
        is_alone: bool,
    },
    Waiting {
        order: u64,
        ahead: u32,
        watch: Watch,
        blocked: Duration,
    },
    Busy,
    Gone,
    Conflict {
        used: u32,
    },
    Late {
        now: u64,
    },
    /// None of our scripts says this.
    Strange,
}

impl Answer {
    pub(super) fn read(answer: Value) -> Self {
        if let Value::Int(order) = answer {
            let held = |order| Self::Held {
                order,
                is_alone: true,
            };
            return u64::try_from(order).map_or(Self::Strange, held);
        }
        let text = match &answer {
            Value::BulkString(text) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        text.and_then(Self::parse).unwrap_or(Self::Strange)
    }

    fn parse(answer: &str) -> Option<Self> {
        let mut words = [""; 5];
        let mut count = 0;
        for word in answer.split(' ') {
            *words.get_mut(count)? = word;
            count += 1;
        }
        Some(match words[..count] {
            ["held", order] => Self::Held {
                order: order.parse().ok()?,
                is_alone: false,
            },
            ["waiting", order, ahead, watch, blocked] => Self::Waiting {
                order: order.parse().ok()?,
                ahead: ahead.parse().ok()?,
                watch: match watch {
                    "-" => Watch::Any,
                    order => Watch::One(order.parse().ok()?),
                },
                blocked: Duration::from_millis(blocked.parse().ok()?),
            },
            ["busy"] => Self::Busy,
            ["gone"] => Self::Gone,
            ["conflict", used] => Self::Conflict {
                used: used.parse().ok()?,
            },
            ["late", now] => Self::Late {
                now: now.parse().ok()?,
            },
            _ => return None,
        })
    }

    /// The standing that it means for our claim, which hears of it; `None` if
    /// it is none.
    pub(super) fn into_standing(self, mine: &Mine) -> Option<Standing> {
        match self {
            Self::Held { order, is_alone } => {
                mine.is_held(is_alone);
                let token = Token::new(order);
                Some(Standing::Held { token })
            }
            Self::Waiting {
                order,
                ahead,
                watch,
                blocked,
            } => {
                mine.waits(order, boot_time() + blocked);
                Some(Standing::Waiting { watch, ahead })
            }
            Self::Busy => Some(Standing::Busy),
            Self::Gone => Some(Standing::Gone),
            Self::Conflict { .. } | Self::Late { .. } | Self::Strange => None,
        }
    }
}

/// The error for an answer that none of our scripts gives.
pub(super) fn strange(doing: String, store: &str) -> Error {
    let why = "the answer is not one of ours: do other versions share the server?";
    Error::new(ErrorKind::Unavailable, doing, why)
        .on(store)
        .effect_is(Effect::Unknown)
}

/// Why a key that is no string cannot be such a lock.
pub(super) fn not_a_lock(kind: &str) -> String {
    match kind {
        "hash" => "the lock's key holds a hash, which is how Redisson locks; \
                   write layout=redisson to share its locks, or take another name"
            .into(),
        kind => format!("the lock's key holds a {kind}, which is no lock; take another name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Answer {
        Answer::read(Value::BulkString(text.into()))
    }

    #[test]
    fn an_answer_is_a_number_or_a_text() {
        let alone = Answer::Held {
            order: 64,
            is_alone: true,
        };
        assert_eq!(Answer::read(Value::Int(64)), alone);
        let held = Answer::Held {
            order: 64,
            is_alone: false,
        };
        assert_eq!(read("held 64"), held);
        let waiting = |watch| Answer::Waiting {
            order: 96,
            ahead: 2,
            watch,
            blocked: Duration::from_millis(7),
        };
        assert_eq!(read("waiting 96 2 64 7"), waiting(Watch::One(64)));
        assert_eq!(read("waiting 96 2 - 7"), waiting(Watch::Any));
        assert_eq!(read("busy"), Answer::Busy);
        assert_eq!(read("gone"), Answer::Gone);
        assert_eq!(read("conflict 3"), Answer::Conflict { used: 3 });
        assert_eq!(read("late 5"), Answer::Late { now: 5 });
    }

    #[test]
    fn what_no_script_of_ours_says_is_strange() {
        for text in ["", "held", "held x", "held 1 2", "waiting 96 2 64 7 8"] {
            assert_eq!(read(text), Answer::Strange, "{text}");
        }
        assert_eq!(Answer::read(Value::Nil), Answer::Strange);
        assert_eq!(Answer::read(Value::Int(-1)), Answer::Strange);
    }
}
