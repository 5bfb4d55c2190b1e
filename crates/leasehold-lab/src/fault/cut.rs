//! A worker is cut off from its store.

use std::time::Duration;

use super::Answer;
use super::network::storm;
use crate::proxy::Weather;
use crate::torture::World;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    storm(world, choice, longest, "network cut", Weather::Cut)
}
