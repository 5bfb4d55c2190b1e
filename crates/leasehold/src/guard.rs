//! A held claim in the hands of the user.

use std::fmt;

/// Why a guard may no longer act as holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lost {
    /// The lease could not be renewed in time; the store may grant the lock to
    /// another at any moment from now.
    Deadline,
    /// The store no longer has the claim.
    Gone,
    /// Somebody broke the lock.
    Evicted,
    /// The hold reached its `max_hold` or `max_renewals`.
    HoldLimit,
    /// The session was closed.
    Closed,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "the lease could not be renewed in time",
            Self::Gone => "the store no longer has the claim",
            Self::Evicted => "the lock was broken",
            Self::HoldLimit => "the hold reached its limit",
            Self::Closed => "the session was closed",
        })
    }
}
