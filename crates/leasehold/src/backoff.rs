//! Waiting times between attempts. Pure: the randomness is an argument.

use std::time::Duration;

/// A pause that doubles with each attempt up to a longest one, of which a
/// random half is taken off so that many clients do not come back together.
pub(crate) fn pause(attempt: u32, first: Duration, longest: Duration, random: u64) -> Duration {
    let whole = first
        .saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX))
        .min(longest);
    let part = f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX);
    whole.mul_f64(0.5 + part / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pause_is_between_half_and_all_of_its_step(attempt in 0_u32..100, random: u64) {
            let first = Duration::from_millis(10);
            let longest = Duration::from_secs(1);
            let step = first.saturating_mul(2_u32.saturating_pow(attempt)).min(longest);
            let pause = pause(attempt, first, longest, random);
            prop_assert!(pause >= step / 2 && pause <= step, "{pause:?}");
        }
    }
}
