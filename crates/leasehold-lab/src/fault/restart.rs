//! A server dies and comes back with what it had on its disk; every other time
//! those without which the store cannot go on.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::torture::World;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let Some((servers, name)) = world.choose_servers(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    let since = now();
    world.recorder.breaks("restart", &name);
    for &server in &servers {
        world.ground.kill(server);
    }
    std::thread::sleep(longest);
    world.ground.start_all_again(&servers);
    world.recorder.heals("restart", &name);
    world.judge_servers(since)
}
