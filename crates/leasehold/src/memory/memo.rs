//! Memos: a map, and when each of them ends.

use std::time::Duration;

use super::{Memory, TOKENS_PER_GRANT};
use crate::clock::{Moment, wall_time};
use crate::engine::{ClaimRef, Memo, Noted, Reading, Standing};
use crate::name::Name;

/// A memo. Without bytes if they were removed.
#[derive(Debug)]
pub(super) struct Kept {
    memo: Memo,
    ends: Option<Moment>,
}

impl Kept {
    fn has_ended(&self, now: Moment) -> bool {
        self.ends.is_some_and(|end| end <= now)
    }
}

impl Memory {
    /// Writes the memo if the claim holds.
    pub(super) fn write(&self, claim: &ClaimRef, memo: &Memo, keep: Option<Duration>) -> Noted {
        let now = self.clock.now();
        let mut state = self.state();
        match state.standing(claim) {
            Standing::Held { token } if memo.is_of(token.get(), TOKENS_PER_GRANT) => {}
            _ => return Noted::NotHeld,
        }
        state.memos.retain(|_, kept| !kept.has_ended(now));
        let is_overtaken =
            |kept: &Kept| kept.memo.token == memo.token && kept.memo.edition > memo.edition;
        if state.memos.get(&claim.name).is_some_and(is_overtaken) {
            return Noted::Written;
        }
        let kept = Kept {
            memo: memo.clone(),
            ends: keep.map(|keep| now + keep),
        };
        state.memos.insert(claim.name.clone(), kept);
        Noted::Written
    }

    pub(super) fn read(&self, name: &Name) -> Reading {
        let now = self.clock.now();
        let state = self.state();
        let kept = state.memos.get(name).filter(|kept| !kept.has_ended(now));
        Reading::of(kept.map(|kept| kept.memo.clone()), Some(wall_time()))
    }
}
