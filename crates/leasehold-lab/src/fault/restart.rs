//! A server dies and comes back, with what it had on its disk or without.

use std::time::Duration;

use super::Answer;
use crate::torture::World;

pub(super) fn with_data(world: &mut World, choice: u64, longest: Duration) -> Answer {
    restart(world, choice, longest, "restart", false)
}

pub(super) fn without_data(world: &mut World, choice: u64, longest: Duration) -> Answer {
    restart(world, choice, longest, "restart without data", true)
}

fn restart(world: &mut World, choice: u64, longest: Duration, kind: &str, forgets: bool) -> Answer {
    let Some((server, name)) = world.choose_server(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    world.recorder.breaks(kind, &name);
    world.ground.kill(server);
    let has_forgotten = forgets && world.ground.forget(server);
    std::thread::sleep(longest);
    world.ground.start_again(server);
    world.recorder.heals(kind, &name);
    match forgets && !has_forgotten {
        true => {
            Answer::Skipped("this store must not lose its data; it was restarted with it".into())
        }
        false => Answer::Installed,
    }
}
