//! What the next token is, if nobody else was granted a lock meanwhile. Pure.
//!
//! It comes from grants that a majority acknowledged and from nothing else. From
//! what single nodes said, or from attempts that failed, one node's counter could
//! be driven up without the others, beyond the jump with which nodes that forgot
//! come back (`docs/proofs/redlock.md`).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::redlock::quorum::{WIDTH, counter_after};

/// The greatest token that a majority acknowledged to this session, for any lock:
/// a lock that a node has no counter for counts as the greatest there is, and a
/// token that is too great for its lock does no harm.
#[derive(Debug, Default)]
pub(super) struct Guess(AtomicU64);

impl Guess {
    /// The token to ask for; `None` before the first grant.
    pub(super) fn next(&self) -> Option<u64> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            last => Some(last + 1),
        }
    }

    /// A majority acknowledged the tokens of a grant that begins with this one.
    pub(super) fn acknowledged(&self, token: u64) {
        let last = counter_after(token, WIDTH);
        self.0.fetch_max(last, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guess_is_one_above_the_greatest_grant() {
        let guess = Guess::default();
        assert_eq!(guess.next(), None);
        guess.acknowledged(101);
        assert_eq!(guess.next(), Some(133));
        guess.acknowledged(5);
        assert_eq!(guess.next(), Some(133));
    }
}
