//! A process stands still: a worker, or a server.

use std::time::Duration;

use super::Answer;
use crate::torture::World;

pub(super) fn worker(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let hand = &world.hands[world.choose_worker(choice)];
    hand.pause();
    std::thread::sleep(longest);
    hand.resume();
    Answer::Installed
}

pub(super) fn server(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let Some((server, name)) = world.choose_server(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    world.recorder.breaks("pause", &name);
    world.ground.pause(server);
    std::thread::sleep(longest);
    world.ground.resume(server);
    world.recorder.heals("pause", &name);
    Answer::Installed
}
