//! A Redis Cluster of three masters, with or without replicas.

use std::ops::RangeInclusive;
use std::path::Path;

use super::{RedisServer, text};
use crate::wait_for;

/// Each master's slots at the start.
const SLOTS: [RangeInclusive<u16>; 3] = [0..=5460, 5461..=10922, 10923..=16383];

/// A running cluster. Its first three servers are the masters at the start, the
/// fourth is the replica of the first, and so on.
#[derive(Debug)]
pub struct Cluster {
    pub servers: Vec<RedisServer>,
}

impl Cluster {
    /// Starts three masters.
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, 0)
    }

    /// Starts three masters and a replica of each.
    pub fn start_with_replicas(folder: &Path) -> Self {
        Self::start_with(folder, SLOTS.len())
    }

    fn start_with(folder: &Path, replicas: usize) -> Self {
        let node = |number: usize| {
            let folder = folder.join(format!("node-{number}"));
            std::fs::create_dir_all(&folder).expect("the folder can be written");
            let options = "--cluster-enabled yes --cluster-config-file nodes.conf \
                           --cluster-node-timeout 2000 --repl-diskless-sync-delay 0";
            RedisServer::start(&folder, &options.split_whitespace().collect::<Vec<_>>())
        };
        let servers: Vec<_> = (0..SLOTS.len() + replicas).map(node).collect();
        let cluster = Self { servers };
        cluster.introduce();
        for number in 0..replicas {
            cluster.make_replica(SLOTS.len() + number, number);
        }
        cluster
    }

    /// `redis+cluster://…` with the three first masters.
    pub fn url(&self) -> String {
        let masters = self.servers[..SLOTS.len()].iter();
        let places: Vec<_> = masters
            .map(|server| format!("127.0.0.1:{}", server.port()))
            .collect();
        format!("redis+cluster://{}", places.join(","))
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        let answer = self.living().command(&["CLUSTER", "KEYSLOT", key]);
        text(&answer).parse().expect("a slot is a number")
    }

    /// Which server has the slot, as a living server sees it.
    pub fn owner(&self, slot: u16) -> usize {
        let nodes = text(&self.living().command(&["CLUSTER", "NODES"]));
        let port = nodes.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let has_it = words.iter().skip(8).any(|range| holds(range, slot));
            let port = words[1].split(&[':', '@'][..]).nth(1)?;
            (has_it && !words[2].contains("fail")).then(|| port.to_owned())
        });
        let port = port.unwrap_or_else(|| panic!("somebody has slot {slot}: {nodes}"));
        let mut servers = self.servers.iter();
        let place = servers.position(|server| server.port().to_string() == port);
        place.expect("it is one of ours")
    }

    /// Moves a slot with its keys to another server.
    pub fn move_slot(&self, slot: u16, to: usize) {
        let from = self.owner(slot);
        self.begin_move(slot, from, to);
        self.move_keys(slot, from, to);
        self.finish_move(slot, to);
    }

    /// From here on the first server answers `ASK` for keys it does not have.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        self.set_slot(to, slot, &["IMPORTING", &self.id(from)]);
        self.set_slot(from, slot, &["MIGRATING", &self.id(to)]);
    }

    /// Moves the keys that are in the slot now.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let port = self.servers[to].port().to_string();
        loop {
            let slot = slot.to_string();
            let asked = ["CLUSTER", "GETKEYSINSLOT", &slot, "1000"];
            let keys = text(&self.servers[from].command(&asked));
            if keys.is_empty() {
                return;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.lines());
            self.servers[from].command(&words);
        }
    }

    /// From here on the server has the slot, and others answer `MOVED`.
    pub fn finish_move(&self, slot: u16, to: usize) {
        let id = self.id(to);
        // The new owner first: the old one's word alone would leave the slot
        // without an owner.
        self.set_slot(to, slot, &["NODE", &id]);
        let masters = (0..SLOTS.len()).filter(|&number| number != to);
        for number in masters {
            self.set_slot(number, slot, &["NODE", &id]);
        }
    }

    /// Kills a server with SIGKILL.
    pub fn kill(&mut self, number: usize) {
        self.servers[number].kill();
    }

    /// Waits until every living server says that all slots are served.
    pub fn wait_until_whole(&self) {
        wait_for("a whole cluster", || {
            let living = self.servers.iter().filter_map(|server| {
                let info = server.ask(&["CLUSTER", "INFO"]).ok()?;
                Some(text(&info))
            });
            let mut count = 0;
            let whole = living.inspect(|_| count += 1).all(|info| {
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            });
            (whole && count > 0).then_some(())
        });
    }

    /// Waits until another server has taken over the slot.
    pub fn wait_for_new_owner(&self, slot: u16, old: usize) -> usize {
        let port = self.servers[old].port();
        wait_for("a new owner", || {
            let living = self
                .servers
                .iter()
                .find(|server| server.info("role").is_some())?;
            let nodes = text(&living.ask(&["CLUSTER", "NODES"]).ok()?);
            let taken = nodes.lines().any(|line| {
                let mut ranges = line.split(' ').skip(8);
                ranges.any(|range| holds(range, slot)) && !line.contains(&format!(":{port}@"))
            });
            taken.then_some(())
        });
        self.wait_until_whole();
        self.owner(slot)
    }

    /// Gives the masters their slots and makes all servers know each other.
    fn introduce(&self) {
        for (number, server) in self.servers.iter().enumerate() {
            let epoch = (number + 1).to_string();
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            if let Some(slots) = SLOTS.get(number) {
                let (first, last) = (slots.start().to_string(), slots.end().to_string());
                server.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            }
            let port = server.port().to_string();
            if number > 0 {
                self.servers[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port]);
            }
        }
        let everybody = format!("cluster_known_nodes:{}\r", self.servers.len());
        for server in &self.servers {
            wait_for("nodes that know each other", || {
                let info = text(&server.command(&["CLUSTER", "INFO"]));
                info.contains(&everybody).then_some(())
            });
        }
        self.wait_until_whole();
    }

    fn make_replica(&self, replica: usize, master: usize) {
        let id = self.id(master);
        let server = &self.servers[replica];
        // A node that was met a moment ago may not know that master yet.
        wait_for("a replica that is taken", || {
            server.ask(&["CLUSTER", "REPLICATE", &id]).ok()
        });
        wait_for("a replica in step", || {
            (server.info("master_link_status")? == "up").then_some(())
        });
    }

    fn id(&self, number: usize) -> String {
        text(&self.servers[number].command(&["CLUSTER", "MYID"]))
    }

    fn set_slot(&self, number: usize, slot: u16, words: &[&str]) {
        let slot = slot.to_string();
        let command = [&["CLUSTER", "SETSLOT", &slot], words].concat();
        self.servers[number].command(&command);
    }

    fn living(&self) -> &RedisServer {
        let mut servers = self.servers.iter();
        let living = servers.find(|server| server.ask(&["PING"]).is_ok());
        living.expect("one of the servers lives")
    }
}

/// Whether a range as `CLUSTER NODES` writes it has the slot.
fn holds(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    // Anything else is a slot that is on its way.
    let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
        return false;
    };
    (first..=last).contains(&slot)
}
