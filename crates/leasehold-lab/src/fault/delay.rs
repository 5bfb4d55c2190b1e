//! The network of a worker is slow.

use std::time::Duration;

use super::Answer;
use super::network::storm;
use crate::proxy::Weather;
use crate::torture::World;

/// How much longer everything takes.
const LONGER: Duration = Duration::from_millis(60);

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    storm(
        world,
        choice,
        longest,
        "slow network",
        Weather::Slow(LONGER),
    )
}
