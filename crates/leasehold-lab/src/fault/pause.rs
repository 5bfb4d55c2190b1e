//! A worker stands still.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::torture::World;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let number = world.choose_worker(choice);
    let hand = &world.hands[number];
    let since = now();
    hand.pause();
    std::thread::sleep(longest);
    // Before it goes on: it may be granted the lock as soon as it does.
    let answer = world.judge(number, since);
    hand.resume();
    answer
}
