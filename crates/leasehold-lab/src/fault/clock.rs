//! The wall clock of a server jumps ahead, and back after a while. Every other
//! time those of most servers do, while whoever holds stands still: until the next
//! one holds, or for half of its time.

use std::time::Duration;

use super::Answer;
use crate::ground::Ground;
use crate::history::now;
use crate::torture::World;

/// How far it jumps, in ttls: past the end of every lease. Where tokens go by that
/// clock and the store forgets, a resource refuses all of them for as long after.
const AHEAD: i64 = 4;

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    let Some((servers, name)) = world.choose_servers(choice) else {
        return Answer::Skipped("the store has no server".into());
    };
    if !world.ground.has_clocks() {
        return Answer::Skipped("the clock of this store's servers cannot be moved here".into());
    }
    let (begin, ttl) = (now(), world.ttl.as_millis());
    let ahead = AHEAD * i64::try_from(ttl).unwrap_or(i64::MAX / AHEAD);
    let set = |ground: &mut dyn Ground, millis| {
        servers
            .iter()
            .for_each(|&server| ground.set_ahead(server, millis));
    };
    match choice.is_multiple_of(2) {
        true => world.behind_holder(|ground| set(ground, ahead)),
        false => set(&mut *world.ground, ahead),
    }
    world.recorder.broke("clock ahead", &name, begin);
    std::thread::sleep(longest);
    set(&mut *world.ground, 0);
    world.recorder.heals("clock ahead", &name);
    world.judge_servers(begin)
}
