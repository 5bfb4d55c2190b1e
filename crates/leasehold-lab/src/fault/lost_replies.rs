//! The store does what a worker asks for, and some answers are lost.

use std::time::Duration;

use super::Answer;
use super::network::storm;
use crate::proxy::Weather;
use crate::torture::World;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    storm(
        world,
        choice,
        longest,
        "lost replies",
        Weather::LosesReplies,
    )
}
