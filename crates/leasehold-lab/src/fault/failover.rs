//! The server that leads dies, another takes over, and the dead one comes back.
//! Where the other may be behind, every other time it has not heard of the
//! last grant.

use std::time::Duration;

use super::Answer;
use crate::crew::until;
use crate::history::{Event, Line, now};
use crate::torture::World;

pub(super) fn leader(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let name = "the leading server";
    if choice.is_multiple_of(2) && world.ground.fall_behind() {
        let behind = now();
        let is_new = |line: &Line| line.at > behind && matches!(line.event, Event::Granted { .. });
        until(world.ttl * 2, || world.recorder.has(is_new));
    }
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
