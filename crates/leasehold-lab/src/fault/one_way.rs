//! What a worker says gets through, and no answer does.

use std::time::Duration;

use super::Answer;
use super::network::storm;
use crate::proxy::Weather;
use crate::torture::World;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    storm(world, choice, longest, "no answers", Weather::OneWay)
}
