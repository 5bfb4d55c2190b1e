//! A primary with replicas.

use std::path::Path;

use super::RedisServer;
use crate::wait_for;

/// A primary and its replicas, all in step when it starts.
#[derive(Debug)]
pub struct Replicated {
    /// The first one is the primary at the start.
    pub servers: Vec<RedisServer>,
}

impl Replicated {
    /// Starts a primary and so many replicas, each with these options beside.
    pub fn start(folder: &Path, replicas: usize, options: &[&str]) -> Self {
        let start = |number: usize, more: &[&str]| {
            let folder = folder.join(format!("server-{number}"));
            std::fs::create_dir_all(&folder).expect("the folder can be written");
            // A replica is taken in at once, not after the usual five seconds.
            let all = [options, &["--repl-diskless-sync-delay", "0"], more].concat();
            RedisServer::start(&folder, &all)
        };
        let primary = start(0, &[]);
        let port = primary.port().to_string();
        let mut servers = vec![primary];
        for number in 1..=replicas {
            servers.push(start(number, &["--replicaof", "127.0.0.1", &port]));
        }
        let replicated = Self { servers };
        replicated.wait_for_replicas(replicas);
        replicated
    }

    pub fn primary(&self) -> &RedisServer {
        &self.servers[0]
    }

    pub fn replicas(&self) -> &[RedisServer] {
        &self.servers[1..]
    }

    pub fn url(&self) -> String {
        self.primary().url()
    }

    /// Waits until so many replicas are in step with the primary.
    pub fn wait_for_replicas(&self, count: usize) {
        wait_for("replicas in step", || {
            let online = (0..count).all(|number| {
                let line = self.primary().info(&format!("slave{number}"));
                line.is_some_and(|line| line.contains("state=online"))
            });
            online.then_some(())
        });
    }
}
