//! A server dies and comes back, with what it had on its disk or without.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::torture::World;

pub(super) fn with_data(world: &mut World, choice: u64, longest: Duration) -> Answer {
    restart(world, choice, longest, false)
}

pub(super) fn without_data(world: &mut World, choice: u64, longest: Duration) -> Answer {
    restart(world, choice, longest, true)
}

fn restart(world: &mut World, choice: u64, longest: Duration, forgets: bool) -> Answer {
    let Some((server, name)) = world.choose_server(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    let since = now();
    world.ground.kill(server);
    let has_forgotten = forgets && world.ground.forget(server);
    let kind = match has_forgotten {
        true => "restart without data",
        false => "restart",
    };
    world.recorder.broke(kind, &name, since);
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
