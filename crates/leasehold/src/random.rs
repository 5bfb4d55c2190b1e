//! Random identifiers and jitter, from the operating system.

/// 128 random bits.
pub(crate) fn random_u128() -> u128 {
    let mut bytes = [0; 16];
    // Without randomness two claims could share a ticket, so going on would be
    // unsafe; on the systems we support the call does not fail after start-up.
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    u128::from_ne_bytes(bytes)
}

/// 64 random bits.
pub(crate) fn random_u64() -> u64 {
    let bits = random_u128();
    u64::try_from(bits >> 64).unwrap_or_default()
}
