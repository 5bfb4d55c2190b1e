//! A worker stands still between its last look at the lock and its write, where no
//! lock can help, and until another has written.

use std::time::Duration;

use super::Answer;
use crate::crew::until;
use crate::history::{Access, Event, Line, now};
use crate::torture::World;

/// How long a worker may take until it comes to its next write.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let number = world.choose_worker(choice);
    if let Err(error) = world.stop_at_write(number) {
        return Answer::Doubtful(error.to_string());
    }
    let hand = &world.hands[number];
    // Nobody would wake one that finds the order later.
    if !until(PATIENCE, || hand.is_stopped()) && world.take_stop_back(number) {
        return Answer::Doubtful("the worker came to no write".into());
    }
    hand.pause();
    let (mark, since) = (world.recorder.so_far(), now());
    std::thread::sleep(longest);
    let is_others = |line: &Line| match &line.event {
        Event::Decides {
            of,
            access,
            accepted,
            ..
        } => line.at > since && *of != hand.name && *accepted && matches!(access, Access::Write(_)),
        _ => false,
    };
    let is_overtaken = until(2 * PATIENCE, || world.recorder.has_after(mark, is_others));
    hand.resume();
    match is_overtaken {
        true => Answer::Installed,
        false => Answer::Doubtful("nobody wrote while the worker stood still".into()),
    }
}
