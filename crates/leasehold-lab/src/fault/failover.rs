//! The server that leads dies, another takes over, and the dead one comes back.

use std::time::Duration;

use super::Answer;
use crate::torture::World;

pub(super) fn leader(world: &mut World, _: u64, longest: Duration) -> Answer {
    let name = "the leading server";
    world.recorder.breaks("failover", name);
    let answer = match world.ground.depose() {
        Ok(deposed) => {
            std::thread::sleep(longest);
            world.ground.start_again(deposed);
            Answer::Installed
        }
        Err(why) => Answer::Skipped(why),
    };
    world.recorder.heals("failover", name);
    answer
}
