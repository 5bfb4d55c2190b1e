//! A server dies and comes back, with what it had on its disk or without. Every
//! other time that it comes without, it does so at once, and whoever holds stands
//! still until the next one holds, or for half of its time.

use std::time::Duration;

use super::Answer;
use crate::history::{Moment, now};
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
    if forgets && choice.is_multiple_of(2) {
        world.wait_for_long_hold();
        let since = now();
        let has_forgotten = world.behind_holder(|ground| {
            ground.kill(server);
            let has_forgotten = ground.forget(server);
            ground.start_again(server);
            has_forgotten
        });
        return tell(world, &name, since, forgets, has_forgotten);
    }
    let since = now();
    world.ground.kill(server);
    let has_forgotten = forgets && world.ground.forget(server);
    std::thread::sleep(longest);
    world.ground.start_again(server);
    tell(world, &name, since, forgets, has_forgotten)
}

/// Tells what happened since then, and whether it was what was meant.
fn tell(world: &World, name: &str, since: Moment, forgets: bool, has_forgotten: bool) -> Answer {
    let kind = match has_forgotten {
        true => "restart without data",
        false => "restart",
    };
    world.recorder.broke(kind, name, since);
    world.recorder.heals(kind, name);
    match forgets && !has_forgotten {
        true => {
            Answer::Skipped("this store must not lose its data; it was restarted with it".into())
        }
        false => Answer::Installed,
    }
}
