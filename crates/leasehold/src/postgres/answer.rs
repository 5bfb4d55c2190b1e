//! What the functions of the schema answer about one claim.

use std::time::Duration;

use sqlx_postgres::PgRow;

use super::inbox::Mine;
use super::text::{parsed, record};
use crate::engine::Standing;
use crate::error::{Effect, Error, ErrorKind};
use crate::fence::Token;
use crate::rule::Watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Held {
        order: u64,
    },
    Waiting {
        order: u64,
        ahead: u32,
        watch: Watch,
        wake: Duration,
    },
    Busy,
    Gone,
    Late {
        epoch: u64,
    },
    Conflict {
        used: u32,
    },
}

impl Answer {
    /// Reads the record `answer, place, ahead, watch, wake, number`.
    pub(super) fn read(rows: &[PgRow]) -> Option<Self> {
        let fields = &record(rows.first()?);
        Some(match fields.first().copied().flatten()? {
            "held" => Self::Held {
                order: parsed(fields, 1)?,
            },
            "waiting" => Self::Waiting {
                order: parsed(fields, 1)?,
                ahead: parsed(fields, 2)?,
                watch: parsed(fields, 3).map_or(Watch::Any, Watch::One),
                wake: Duration::from_millis(parsed(fields, 4)?),
            },
            "busy" => Self::Busy,
            "gone" => Self::Gone,
            "late" => Self::Late {
                epoch: parsed(fields, 5)?,
            },
            "conflict" => Self::Conflict {
                used: parsed(fields, 5)?,
            },
            _ => return None,
        })
    }

    /// The standing, which the claim keeps in mind. `None` if it has none.
    pub(super) fn into_standing(self, mine: &Mine) -> Option<Standing> {
        Some(match self {
            Self::Held { order } => {
                mine.is_held(order);
                Standing::Held {
                    token: Token::new(order),
                }
            }
            Self::Waiting {
                order,
                ahead,
                watch,
                wake,
            } => {
                mine.waits(order, wake);
                Standing::Waiting { watch, ahead }
            }
            Self::Busy => Standing::Busy,
            Self::Gone => Standing::Gone,
            Self::Late { .. } | Self::Conflict { .. } => return None,
        })
    }
}

/// The server said something that none of our functions says.
pub(super) fn strange(doing: String, store: &str) -> Error {
    let why = "the answer is not understood: the functions in the schema are not ours";
    Error::new(ErrorKind::Config, doing, why)
        .on(store)
        .effect_is(Effect::Unknown)
}
