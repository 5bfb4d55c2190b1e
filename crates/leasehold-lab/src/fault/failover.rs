//! The server that leads dies, another takes over, and the dead one comes back.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::torture::World;

pub(super) fn leader(world: &mut World, _: u64, longest: Duration) -> Answer {
    let name = "the leading server";
    let since = now();
    match world.ground.depose() {
        Ok(deposed) => {
            world.recorder.broke("failover", name, since);
            std::thread::sleep(longest);
            world.ground.start_again(deposed);
            world.recorder.heals("failover", name);
            Answer::Installed
        }
        Err(why) => Answer::Skipped(why),
    }
}
