//! The wall clock of a server jumps ahead, and back after a while.

use std::time::Duration;

use super::Answer;
use crate::torture::World;

const AHEAD: i64 = 60_000;

pub(super) fn ahead(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let Some((server, name)) = world.choose_server(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    if !world.ground.set_ahead(server, AHEAD) {
        return Answer::Skipped("the clock of this store's servers cannot be moved here".into());
    }
    world.recorder.breaks("clock ahead", &name);
    std::thread::sleep(longest);
    world.ground.set_ahead(server, 0);
    world.recorder.heals("clock ahead", &name);
    Answer::Installed
}
