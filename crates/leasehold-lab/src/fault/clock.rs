//! The wall clock of a server jumps ahead, and back after a while. Every other
//! time whoever holds stands still when it does, until the next one holds, or for
//! half of its time.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::torture::World;

const AHEAD: i64 = 60_000;

pub(super) fn ahead(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let Some((server, name)) = world.choose_server(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    let begin = now();
    let jumped = match choice.is_multiple_of(2) {
        true => {
            world.wait_for_long_hold();
            world.behind_holder(|ground| ground.set_ahead(server, AHEAD))
        }
        false => world.ground.set_ahead(server, AHEAD),
    };
    if !jumped {
        return Answer::Skipped("the clock of this store's servers cannot be moved here".into());
    }
    world.recorder.broke("clock ahead", &name, begin);
    std::thread::sleep(longest);
    world.ground.set_ahead(server, 0);
    world.recorder.heals("clock ahead", &name);
    Answer::Installed
}
