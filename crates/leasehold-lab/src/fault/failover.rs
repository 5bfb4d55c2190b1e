//! The server that leads dies, another takes over, and the dead one comes back.
//! Every other time it is as bad as it can be: the other has not heard of the
//! last grant, where it may be behind, and whoever has it stands still until the
//! next one holds, or for half of its time. It falls behind while nobody holds:
//! a claim whose release it never hears of would keep everybody out.

use std::time::Duration;

use super::Answer;
use crate::crew::until;
use crate::history::{Moment, now};
use crate::torture::World;

/// Who has held for so many nanoseconds has work that takes long.
const LONG_ENOUGH: Moment = 50_000_000;
const NAME: &str = "the leading server";
/// How long it is away at most.
const LONGEST: Duration = Duration::from_secs(4);

pub(super) fn happen(world: &mut World, choice: u64, longest: Duration) -> Answer {
    if let Err(why) = world.ground.may_depose() {
        return Answer::Skipped(why);
    }
    let deposed = match choice.is_multiple_of(2) {
        true => depose_behind_holder(world),
        false => {
            let since = now();
            world.ground.depose().map(|deposed| (deposed, since))
        }
    };
    match deposed {
        Ok((deposed, since)) => {
            world.recorder.broke("failover", NAME, since);
            std::thread::sleep(longest.min(LONGEST));
            world.ground.start_again(deposed);
            world.recorder.heals("failover", NAME);
            Answer::Installed
        }
        Err(why) => Answer::Skipped(why),
    }
}

/// Gives who was deposed, and since when.
fn depose_behind_holder(world: &mut World) -> Result<(usize, Moment), String> {
    if world.while_all_rest(|ground| ground.fall_behind()) {
        let behind = now();
        let is_new = |since| since > behind && now() - since > LONG_ENOUGH;
        until(world.ttl * 2, || {
            let holder = world.recorder.holder();
            holder.is_some_and(|(_, since)| is_new(since))
        });
    }
    let since = now();
    let deposed = world.behind_holder(|ground| ground.depose());
    deposed.map(|deposed| (deposed, since))
}
