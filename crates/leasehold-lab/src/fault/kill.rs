//! A worker is killed with SIGKILL, and another starts in its place.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::torture::World;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let number = world.choose_worker(choice);
    let since = now();
    world.kill_worker(number);
    std::thread::sleep(longest);
    match world.start_worker(number) {
        Ok(()) => world.judge(number, since),
        Err(error) => Answer::Doubtful(error.to_string()),
    }
}
