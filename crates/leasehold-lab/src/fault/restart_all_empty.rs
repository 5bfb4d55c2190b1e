//! All servers of a store die at once and come back without what they had on their
//! disks, and somebody who connects then takes them for new ones. Whoever holds
//! stands still until the next one holds, or for half of its time. Where one server
//! is all there is, that is `restart-empty`.

use std::time::Duration;

use super::Answer;
use crate::history::now;
use crate::story::Error;
use crate::torture::World;

pub(super) fn happen(world: &mut World, _: u64, longest: Duration) -> Answer {
    if !world.ground.may_forget() {
        return Answer::Skipped(super::MUST_NOT_FORGET.into());
    }
    if world.ground.servers() < 2 {
        return Answer::Skipped("one server is all it has: see restart-empty".into());
    }
    world.wait_for_holder();
    let servers: Vec<_> = (0..world.ground.servers()).collect();
    let (since, ttl) = (now(), world.ttl);
    let came = world.behind_holder(|ground| {
        servers.iter().for_each(|&server| ground.kill(server));
        servers.iter().for_each(|&server| ground.forget(server));
        ground.start_all_again(&servers);
        let ttl_millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        come(&ground.url(&ground.ports(), ttl_millis))
    });
    std::thread::sleep(longest);
    let name = "all servers";
    world.recorder.broke("restart without data", name, since);
    world.recorder.heals("restart without data", name);
    match (world.operate(), came) {
        (Err(why), _) => panic!("{why}"),
        (Ok(()), Err(error)) => Answer::Doubtful(format!("nobody took them for new ones: {error}")),
        (Ok(()), Ok(())) => world.judge_servers(since),
    }
}

/// Connects to the store once, as the first one after it forgot.
fn come(url: &str) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        leasehold::connect(url).await?.close().await;
        Ok(())
    })
}
