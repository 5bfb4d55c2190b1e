//! One Redis server, or five that know nothing of each other.

use std::path::{Path, PathBuf};

use super::{Contents, Ground, Mended, places, quarantine};
use crate::story::Error;
use testbed::redis::{RedisServer, lacks_clock, lacks_redis, text};

/// Everything is on the disk before it is answered, so that a restart forgets
/// nothing.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

#[derive(Debug)]
struct Redis {
    servers: Vec<(RedisServer, PathBuf)>,
}

pub(super) fn lacks() -> Option<&'static str> {
    lacks_redis().or(lacks_clock())
}

pub(super) fn start_one(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    start(folder, 1)
}

pub(super) fn start_five(folder: &Path) -> Result<Box<dyn Ground>, Error> {
    start(folder, 5)
}

fn start(folder: &Path, count: usize) -> Result<Box<dyn Ground>, Error> {
    let mut servers = Vec::new();
    for number in 0..count {
        let folder = folder.join(format!("redis-{number}"));
        std::fs::create_dir_all(&folder)?;
        servers.push((RedisServer::start_with_clock(&folder, &DURABLE), folder));
    }
    Ok(Box::new(Redis { servers }))
}

/// All keys of a server.
pub(super) fn raw_keys(server: &RedisServer) -> Result<Vec<String>, String> {
    let keys = server.ask(&["KEYS", "*"]);
    let keys = text(&keys.map_err(|error| error.to_string())?);
    Ok(keys.lines().map(str::to_owned).collect())
}

impl Ground for Redis {
    fn ports(&self) -> Vec<u16> {
        let servers = self.servers.iter();
        servers.map(|(server, _)| server.port()).collect()
    }

    fn voters(&self) -> Vec<u16> {
        match self.servers.len() {
            1 => Vec::new(),
            _ => self.ports(),
        }
    }

    fn url(&self, ports: &[u16], ttl_millis: u64) -> String {
        let scheme = match ports.len() {
            1 => "redis",
            _ => "redlock",
        };
        format!("{scheme}://{}?ttl={ttl_millis}ms", places(ports))
    }

    fn contents(&self) -> Result<Contents, String> {
        let mut keys = Vec::new();
        for (server, _) in &self.servers {
            keys.extend(raw_keys(server)?);
        }
        Ok(Contents::of(keys))
    }

    fn kill(&mut self, server: usize) {
        self.servers[server].0.kill();
    }

    fn start_again(&mut self, server: usize) {
        self.servers[server].0.start_again();
    }

    fn may_forget(&self) -> bool {
        true
    }

    fn forget(&mut self, server: usize) {
        let folder = self.servers[server].1.join("appendonlydir");
        std::fs::remove_dir_all(folder).expect("a server has its files");
    }

    fn mend(&mut self, ttl_millis: u64) -> Result<Mended, String> {
        match self.servers.len() {
            1 => Ok(Mended::All),
            _ => quarantine::admit_all(&self.url(&self.ports(), ttl_millis)),
        }
    }

    fn mend_without_workers(&mut self) -> Result<(), String> {
        for (server, _) in &self.servers {
            let removed = server.ask(&["HDEL", "lh:redlock", "run"]);
            removed.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn pause(&mut self, server: usize) {
        self.servers[server].0.stop();
    }

    fn resume(&mut self, server: usize) {
        self.servers[server].0.resume();
    }

    fn has_clocks(&self) -> bool {
        true
    }

    fn set_ahead(&mut self, server: usize, millis: i64) {
        self.servers[server].0.set_ahead(millis);
    }
}
