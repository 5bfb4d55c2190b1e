//! The network of one worker is bad for a while.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::proxy::Weather;
use crate::torture::World;

/// One kind of weather on all of its ways to the store.
pub(super) fn storm(
    world: &mut World,
    choice: u64,
    longest: Duration,
    kind: &str,
    weather: Weather,
) -> Answer {
    let number = world.choose_worker(choice);
    let name = world.hands[number].name.clone();
    let proxies = &world.networks[number];
    if proxies.is_empty() {
        return Answer::Skipped("nothing can be put between a worker and this store".into());
    }
    let since = now();
    world.recorder.breaks(kind, &name);
    for proxy in proxies {
        proxy.set(weather);
    }
    std::thread::sleep(longest);
    for proxy in proxies {
        proxy.set(Weather::Fair);
    }
    world.recorder.heals(kind, &name);
    world.judge(number, since)
}
