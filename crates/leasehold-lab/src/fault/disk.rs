//! The disk of the store is full for a while. A server that dies of it is
//! started again when there is room.

use std::time::Duration;

use super::Answer;
use crate::torture::World;

pub(super) fn full(world: &mut World, _: u64, longest: Duration) -> Answer {
    let disk = match &world.disk {
        Ok(disk) => disk,
        Err(why) => return Answer::Skipped(why.clone()),
    };
    world.recorder.breaks("disk full", "all servers");
    let filled = disk.fill();
    std::thread::sleep(longest);
    let cleared = disk.clear();
    world.recorder.heals("disk full", "all servers");
    for (server, port) in world.ground.ports().into_iter().enumerate() {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            world.recorder.note("a server had died of it");
            world.ground.kill(server);
            world.ground.start_again(server);
        }
    }
    match filled.and(cleared) {
        Ok(()) => Answer::Installed,
        Err(error) => Answer::Doubtful(error.to_string()),
    }
}
