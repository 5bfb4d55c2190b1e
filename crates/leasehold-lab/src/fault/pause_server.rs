//! A server stands still; every other time those without which the store cannot
//! go on.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::torture::World;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let Some((servers, name)) = world.choose_servers(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    let since = now();
    world.recorder.breaks("pause", &name);
    for &server in &servers {
        world.ground.pause(server);
    }
    std::thread::sleep(longest);
    for &server in &servers {
        world.ground.resume(server);
    }
    world.recorder.heals("pause", &name);
    world.judge_servers(since)
}
