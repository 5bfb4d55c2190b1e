//! The disk of the store is full for a while. A server that dies of it is
//! started again when there is room.

use std::time::Duration;

use super::Answer;
use crate::history::{Event, Line, now};
use crate::torture::World;

pub(super) fn happen(world: &mut World, _: u64, longest: Duration) -> Answer {
    let disk = match &world.disk {
        Ok(disk) => disk,
        Err(why) => return Answer::Skipped(why.clone()),
    };
    world.recorder.breaks("disk full", "all servers");
    let filled = disk.fill();
    let since = now();
    // A holder that cannot be renewed is told within a ttl.
    std::thread::sleep(longest.max(world.ttl * 3 / 2));
    let suffers = |line: &Line| {
        line.at > since && matches!(line.event, Event::Lost { .. } | Event::Refused { .. })
    };
    let mut is_seen = world.recorder.has(suffers);
    let cleared = disk.clear();
    world.recorder.heals("disk full", "all servers");
    let mut dead = Vec::new();
    for (server, port) in world.ground.ports().into_iter().enumerate() {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            world.recorder.note("a server had died of it");
            is_seen = true;
            world.ground.kill(server);
            dead.push(server);
        }
    }
    world.ground.start_all_again(&dead);
    match filled.and(cleared) {
        Ok(()) if is_seen => Answer::Installed,
        Ok(()) => Answer::Doubtful("it went on in the room that it had taken before".into()),
        Err(error) => Answer::Doubtful(error.to_string()),
    }
}
