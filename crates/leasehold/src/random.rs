//! Random identifiers and jitter, from the operating system; from a seed where
//! a simulation asks for it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// 128 random bits.
pub(crate) fn random_u128() -> u128 {
    #[cfg(feature = "conformance")]
    if let Some(bits) = seeded::next() {
        return bits;
    }
    u128::from_ne_bytes(random_bytes())
}

/// 64 random bits.
pub(crate) fn random_u64() -> u64 {
    #[cfg(feature = "conformance")]
    if let Some(bits) = seeded::next() {
        return u64::try_from(bits >> 64).unwrap_or_default();
    }
    u64::from_ne_bytes(random_bytes())
}

/// The ids of a session's claims, no two alike: they count from where the operating
/// system's randomness says, so that a claim does not have to ask for more of it.
pub(crate) struct Ids {
    first_ticket: u128,
    first_holder: u64,
    drawn: AtomicU64,
}

impl Ids {
    pub(crate) fn new() -> Self {
        Self {
            first_ticket: random_u128(),
            first_holder: random_u64(),
            drawn: AtomicU64::new(0),
        }
    }

    /// A ticket's id and its holder's.
    pub(crate) fn next(&self) -> (u128, u64) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let ticket = self.first_ticket.wrapping_add(number.into());
        // Scattered, because holders have half the bits: two sessions that once
        // draw the same one must not go on side by side.
        let holder = self.first_holder.wrapping_add(number.wrapping_mul(GOLDEN));
        (ticket, scattered(holder))
    }
}

/// They prove ownership, so none is shown, nor what they are counted from.
impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").finish_non_exhaustive()
    }
}

/// 2^64 divided by the golden ratio, odd: its multiples visit every number.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64: no two numbers go to the same one.
fn scattered(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness two claims could share a ticket, so going on would be
    // unsafe; on the systems we support the call does not fail after start-up.
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes
}

/// Numbers that a simulation can repeat. One generator per thread: what other
/// threads draw must not change what this one gets.
#[cfg(feature = "conformance")]
pub(crate) mod seeded {
    use std::cell::Cell;

    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From here on this thread draws from the seed; from the operating system
    /// again with `None`.
    pub fn seed_this_thread(seed: Option<u64>) {
        STATE.set(seed);
    }

    pub(super) fn next() -> Option<u128> {
        let mut state = STATE.get()?;
        let (high, low) = (step(&mut state), step(&mut state));
        STATE.set(Some(state));
        Some(u128::from(high) << 64 | u128::from(low))
    }

    /// SplitMix64: every seed, also zero, gives a good sequence.
    fn step(state: &mut u64) -> u64 {
        *state = state.wrapping_add(super::GOLDEN);
        super::scattered(*state)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_claims_have_the_same_ids() {
        let sessions = [Ids::new(), Ids::new(), Ids::new()];
        let ids = sessions
            .iter()
            .flat_map(|ids| (0..1000).map(|_| ids.next()));
        let (tickets, holders): (HashSet<_>, HashSet<_>) = ids.unzip();
        assert_eq!((tickets.len(), holders.len()), (3000, 3000));
    }
}
