//! A server dies and comes back without what it had on its disk; every other time
//! those without which the store cannot go on, at once, and whoever holds stands
//! still until the next one holds, or for half of its time. Where people have to
//! say what is true then, the lab does so.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::torture::World;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let Some((servers, name)) = world.choose_servers(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    if !world.ground.may_forget() {
        return Answer::Skipped(super::MUST_NOT_FORGET.into());
    }
    let aims = choice.is_multiple_of(2);
    let since = now();
    if aims {
        world.behind_holder(|ground| {
            servers.iter().for_each(|&server| ground.kill(server));
            servers.iter().for_each(|&server| ground.forget(server));
            ground.start_all_again(&servers);
        });
    } else {
        servers.iter().for_each(|&server| world.ground.kill(server));
        servers
            .iter()
            .for_each(|&server| world.ground.forget(server));
    }
    std::thread::sleep(longest);
    if !aims {
        world.ground.start_all_again(&servers);
    }
    world.recorder.broke("restart without data", &name, since);
    world.recorder.heals("restart without data", &name);
    match world.operate() {
        Ok(()) => world.judge_servers(since),
        Err(why) => panic!("{why}"),
    }
}
