//! A primary and two replicas, watched by three Sentinels.

use std::path::Path;
use std::time::Duration;

use super::{RedisServer, Replicated, lacks_sentinel, text};
use crate::{Process, free_port, need, wait_for};

pub(super) const PROGRAM: &str = "redis-sentinel";
const SENTINELS: usize = 3;
const REPLICAS: usize = 2;

/// Sentinels that agree about one primary.
#[derive(Debug)]
pub struct Sentinel {
    // Ended first, so that they do not fail over while the servers end.
    watchers: Vec<Watcher>,
    replicated: Replicated,
    killed: Vec<u16>,
}

#[derive(Debug)]
struct Watcher {
    _process: Process,
    port: u16,
}

impl Sentinel {
    /// What the Sentinels call their primary.
    pub const NAME: &str = "mymaster";

    /// Starts all six processes, the servers with these options beside.
    pub fn start(folder: &Path, options: &[&str]) -> Self {
        need(lacks_sentinel());
        let replicated = Replicated::start(folder, REPLICAS, options);
        let primary = replicated.primary().port();
        let watchers = (0..SENTINELS)
            .map(|number| {
                let folder = folder.join(format!("sentinel-{number}"));
                Watcher::start(&folder, primary)
            })
            .collect();
        let sentinel = Self {
            watchers,
            replicated,
            killed: Vec::new(),
        };
        wait_for("Sentinels that know each other", || {
            let mut watchers = sentinel.watchers.iter();
            watchers.all(Watcher::knows_everybody).then_some(())
        });
        sentinel
    }

    /// `redis+sentinel://…` with all three.
    pub fn url(&self) -> String {
        let watchers = self.watchers.iter();
        let places: Vec<_> = watchers.map(|w| format!("127.0.0.1:{}", w.port)).collect();
        format!("redis+sentinel://{}/{}", places.join(","), Self::NAME)
    }

    /// Where the Sentinels themselves listen.
    pub fn watcher_ports(&self) -> Vec<u16> {
        self.watchers.iter().map(|watcher| watcher.port).collect()
    }

    /// Kills the present primary with SIGKILL and says which it was.
    pub fn kill_primary(&mut self) -> u16 {
        let port = self.primary_port();
        self.server_mut(port).kill();
        self.killed.push(port);
        port
    }

    /// Starts every server again that was killed; the Sentinels make it a
    /// replica.
    pub fn restart_killed(&mut self) {
        for port in std::mem::take(&mut self.killed) {
            self.server_mut(port).restart();
        }
    }

    /// The port of the server that a majority of Sentinels calls the primary.
    pub fn primary_port(&self) -> u16 {
        wait_for("a primary", || self.agreed_port())
    }

    /// The server that is the primary now.
    pub fn primary(&self) -> &RedisServer {
        let port = self.primary_port();
        let mut servers = self.servers().iter();
        servers
            .find(|server| server.port() == port)
            .expect("it is one of ours")
    }

    /// All servers, dead ones too.
    pub fn servers(&self) -> &[RedisServer] {
        &self.replicated.servers
    }

    /// Waits until the Sentinels have put a living server into the place of the
    /// killed one, and it takes writes; says which.
    pub fn wait_for_new_primary(&self) -> u16 {
        self.wait_for_other_primary(&self.killed)
    }

    /// As `wait_for_new_primary`, where these were replaced.
    pub fn wait_for_other_primary(&self, replaced: &[u16]) -> u16 {
        wait_for("a new primary", || {
            let port = self.agreed_port().filter(|port| !replaced.contains(port))?;
            let mut servers = self.servers().iter();
            let server = servers.find(|server| server.port() == port)?;
            (server.info("role")? == "master").then_some(port)
        })
    }

    fn agreed_port(&self) -> Option<u16> {
        let ports: Vec<u16> = self.watchers.iter().filter_map(Watcher::primary).collect();
        let votes = |port: u16| ports.iter().filter(|&&other| other == port).count();
        let agreed = ports.iter().find(|&&port| votes(port) > SENTINELS / 2);
        agreed.copied()
    }

    fn server_mut(&mut self, port: u16) -> &mut RedisServer {
        let mut servers = self.replicated.servers.iter_mut();
        servers
            .find(|server| server.port() == port)
            .expect("it is one of ours")
    }
}

impl Watcher {
    fn start(folder: &Path, primary: u16) -> Self {
        std::fs::create_dir_all(folder).expect("the folder can be written");
        let port = free_port();
        let file = folder.join("sentinel.conf");
        let conf = format!(
            "port {port}\nbind 127.0.0.1\ndir {folder}\ndaemonize no\n\
             sentinel monitor {name} 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds {name} 1000\n\
             sentinel failover-timeout {name} 5000\n",
            folder = folder.display(),
            name = Sentinel::NAME,
        );
        std::fs::write(&file, conf).expect("the folder can be written");
        let file = file.to_string_lossy().into_owned();
        let process = Process::start(PROGRAM.as_ref(), [file]);
        Self {
            _process: process,
            port,
        }
    }

    fn knows_everybody(&self) -> bool {
        let Some(fields) = self.ask(&["SENTINEL", "MASTER", Sentinel::NAME]) else {
            return false;
        };
        let fields: Vec<&str> = fields.lines().collect();
        let has = |name: &str, value: usize| {
            let mut pairs = fields.chunks(2);
            pairs.any(|pair| pair[0] == name && pair.get(1) == Some(&value.to_string().as_str()))
        };
        has("num-slaves", REPLICAS) && has("num-other-sentinels", SENTINELS - 1)
    }

    fn primary(&self) -> Option<u16> {
        let address = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Sentinel::NAME])?;
        address.lines().nth(1)?.parse().ok()
    }

    fn ask(&self, words: &[&str]) -> Option<String> {
        let client = redis::Client::open(("127.0.0.1", self.port)).ok()?;
        let longest = Duration::from_secs(5);
        let mut connection = client.get_connection_with_timeout(longest).ok()?;
        let answer = redis::Cmd::new().arg(words).query(&mut connection).ok()?;
        Some(text(&answer))
    }
}
