//! Several Redis servers that know nothing of each other: the nodes of Redlock.

use std::path::Path;

use super::RedisServer;

pub struct Fleet {
    pub servers: Vec<RedisServer>,
}

impl Fleet {
    pub fn start(folder: &Path, count: usize) -> Self {
        Self::start_with(folder, count, &[])
    }

    /// With these settings for every node.
    pub fn start_with(folder: &Path, count: usize, settings: &[&str]) -> Self {
        let start = |folder: &Path| RedisServer::start(folder, settings);
        Self::start_each(folder, count, start)
    }

    /// With wall clocks that can be moved.
    pub fn start_with_clocks(folder: &Path, count: usize) -> Self {
        Self::start_each(folder, count, |folder| {
            RedisServer::start_with_clock(folder, &[])
        })
    }

    fn start_each(folder: &Path, count: usize, start: impl Fn(&Path) -> RedisServer) -> Self {
        let start = |number: usize| {
            let folder = folder.join(format!("node-{number}"));
            std::fs::create_dir_all(&folder).expect("there is room for a folder");
            start(&folder)
        };
        Self {
            servers: (0..count).map(start).collect(),
        }
    }

    /// Every node forgets every key and every script.
    pub fn wipe(&self) {
        self.servers.iter().for_each(RedisServer::wipe);
    }

    pub fn url(&self) -> String {
        let places = self.servers.iter().map(RedisServer::url);
        let places: Vec<_> = places.map(|url| url.replace("redis://", "")).collect();
        format!("redlock://{}", places.join(","))
    }
}
