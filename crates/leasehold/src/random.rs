//! Random identifiers and jitter, from the operating system; from a seed where
//! a simulation asks for it.

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

/// A ticket's id and its holder's, by asking the operating system only once:
/// every claim needs both.
pub(crate) fn random_ids() -> (u128, u64) {
    #[cfg(feature = "conformance")]
    if let Some(bits) = seeded::next() {
        return (bits, random_u64());
    }
    let bytes: [u8; 24] = random_bytes();
    let (mut id, mut holder) = ([0; 16], [0; 8]);
    id.copy_from_slice(&bytes[..16]);
    holder.copy_from_slice(&bytes[16..]);
    (u128::from_ne_bytes(id), u64::from_ne_bytes(holder))
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
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
