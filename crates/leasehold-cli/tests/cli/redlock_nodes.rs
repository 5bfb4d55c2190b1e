//! `leasehold redlock`: which nodes count, and letting them in again. Five
//! servers of our own.

use crate::redis_server::Server;
use crate::world::{Done, World, bare};

pub(crate) struct Fleet {
    pub(crate) servers: Vec<Server>,
}

impl Fleet {
    pub(crate) fn start(count: usize) -> Self {
        Self::with(count, &[])
    }

    /// With these lines of configuration on every node.
    pub(crate) fn with(count: usize, lines: &[&str]) -> Self {
        let servers = (0..count).map(|_| Server::with(lines));
        Self {
            servers: servers.collect(),
        }
    }

    pub(crate) fn url(&self) -> String {
        let places: Vec<_> = self.servers.iter().map(Server::place).collect();
        format!("redlock://{}", places.join(","))
    }

    /// A folder for processes whose locks are here.
    pub(crate) fn world(&self) -> World {
        World::on(self.url())
    }

    /// Restarts a node with what it had on its disk: what it did since is gone.
    fn restart(&mut self, number: usize) {
        self.servers[number].tell("SAVE");
        self.servers[number].restart();
    }
}

fn standings(done: &Done) -> Vec<String> {
    let nodes = done.json()["nodes"].clone();
    let nodes = nodes.as_array().unwrap().iter();
    let standing = |node: &serde_json::Value| node["standing"].as_str().unwrap().to_owned();
    nodes.map(standing).collect()
}

#[testbed::test]
fn status_tells_how_many_nodes_count() {
    let mut fleet = Fleet::start(5);
    let world = fleet.world();
    let done = world.run(&["redlock", "status"]);
    assert_eq!(done.code, 69, "{done:?}");
    let said = "0 of 5 nodes count, 3 are needed; all are new: the first session admits them\n";
    assert!(done.stdout.ends_with(said), "{done:?}");

    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    let done = world.run(&["redlock", "status"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.stdout.ends_with("5 of 5 nodes count, 3 are needed\n"),
        "{done:?}"
    );
    assert_eq!(done.stdout.lines().count(), 7, "{done:?}");

    fleet.servers[0].kill();
    fleet.restart(1);
    let done = world.run(&["redlock", "status"]);
    assert_eq!(done.code, 0, "{done:?}");
    let line = |place: &str| {
        let mut lines = done.stdout.lines();
        lines.find(|line| line.contains(place)).unwrap().to_owned()
    };
    let first = line(&fleet.servers[0].place());
    assert!(
        first.contains("away: ") && first.contains("refused"),
        "{first}"
    );
    let second = line(&fleet.servers[1].place());
    assert!(second.contains("in quarantine"), "{second}");
    let said = "3 of 5 nodes count, 3 are needed; leasehold redlock admit lets in";
    assert!(done.stdout.contains(said), "{done:?}");

    fleet.servers[2].kill();
    fleet.servers[2].start_again();
    let done = world.run(&["redlock", "status", "--json"]);
    assert_eq!(done.code, 69, "{done:?}");
    let expected = ["away", "quarantined", "empty", "good", "good"];
    assert_eq!(standings(&done), expected, "{done:?}");
    let said = done.json();
    assert_eq!((&said["counting"], &said["needed"]), (&2.into(), &3.into()));
    assert_eq!(said["majority"], false);
    assert!(said["nodes"][4]["highest"].as_u64().unwrap() > 0, "{said}");
    assert!(said["nodes"][0]["highest"].is_null(), "{said}");
    // And so it is.
    let done = world.run(&["run", "-w", "5s", "x", "true"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.complaint().contains("redlock status"), "{done:?}");
}

#[testbed::test]
fn a_node_that_restarted_is_admitted_above_all_tokens() {
    let mut fleet = Fleet::start(5);
    let world = fleet.world();
    let token = || -> u64 {
        // What a node forgot may be held for a ttl: it is admitted after that.
        let done = world.run(&["run", "--ttl", "20s", "x", "printenv", "LEASEHOLD_TOKEN"]);
        done.stdout
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{done:?}"))
    };
    let before = token();
    fleet.restart(1);
    fleet.servers[2].kill();
    fleet.servers[2].start_again();

    let done = world.run(&["redlock", "admit", "nowhere:1"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.complaint().contains("no node nowhere:1"), "{done:?}");

    let wanted = fleet.servers[2].place();
    let done = world.run(&["redlock", "admit", "--json", &wanted]);
    assert_eq!(done.code, 0, "{done:?}");
    let admitted = done.json()["admitted"].clone();
    assert_eq!(admitted.as_array().unwrap().len(), 1, "{admitted}");
    assert_eq!(admitted[0]["node"], wanted);
    let floor = admitted[0]["floor"].as_u64().unwrap();
    assert!(floor > before, "{floor} {before}");
    assert!(token() > floor);

    let done = world.run(&["redlock", "admit"]);
    assert_eq!(done.code, 0, "{done:?}");
    let said = format!("admitted {}: all tokens", fleet.servers[1].place());
    assert!(done.stdout.starts_with(&said), "{done:?}");
    assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
    let done = world.run(&["redlock", "status", "--json"]);
    assert_eq!(standings(&done), ["good"; 5]);

    let done = world.run(&["redlock", "admit"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.complaint().contains("nothing to do"), "{done:?}");
    let done = world.run(&["redlock", "admit", &wanted]);
    assert!(done.complaint().contains("nothing to do"), "{done:?}");
}

#[testbed::test]
fn a_node_that_forgot_nothing_is_admitted_without_a_jump() {
    let careful = ["appendonly yes", "appendfsync always"];
    let mut fleet = Fleet::with(3, &careful);
    let world = fleet.world();
    let done = world.run(&["redlock", "admit", "--json"]);
    let founded = done.json()["admitted"].clone();
    assert_eq!(founded.as_array().unwrap().len(), 3, "{done:?}");
    fleet.servers[0].kill();
    fleet.servers[0].start_again();
    let done = world.run(&["redlock", "status"]);
    assert!(done.stdout.contains("yes        in quarantine"), "{done:?}");
    let done = world.run(&["redlock", "admit"]);
    assert!(done.stdout.contains("it kept everything"), "{done:?}");
    assert_eq!(world.run(&["redlock", "status"]).code, 0);
}

#[testbed::test]
fn when_too_many_nodes_forgot_nobody_is_admitted() {
    let mut fleet = Fleet::start(5);
    let world = fleet.world();
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    for server in &mut fleet.servers[..3] {
        server.kill();
        server.start_again();
    }
    let done = world.run(&["redlock", "admit"]);
    assert_eq!(done.code, 69, "{done:?}");
    let said = done.complaint();
    assert!(said.contains("3 other nodes in good standing"), "{said}");
    assert!(done.stdout.is_empty(), "{done:?}");
    let done = world.run(&["redlock", "status"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.stdout.contains("too many restarted"), "{done:?}");
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, 78, "{done:?}");
    assert!(done.stdout.contains("nobody can lock"), "{done:?}");
}

#[testbed::test]
fn other_stores_have_no_nodes() {
    let world = World::new();
    for url in [world.url(), "redis://127.0.0.1:1".to_owned()] {
        for action in ["status", "admit"] {
            let done = Done::of(&mut bare(["redlock", action, "--url", &url]));
            assert_eq!(done.code, 64, "{done:?}");
            assert!(done.complaint().contains("redlock: only"), "{done:?}");
        }
    }
    let done = Done::of(&mut bare(["redlock", "status", "--url", "redlock://a,b"]));
    assert_eq!(done.code, 78, "{done:?}");
    let done = Done::of(&mut bare(["redlock", "fix"]));
    assert_eq!(done.code, 64, "{done:?}");
}

#[testbed::test]
fn without_tokens_a_node_counts_if_it_answers() {
    let mut fleet = Fleet::start(3);
    let world = World::on(format!("{}?tokens=off", fleet.url()));
    assert_eq!(world.run(&["redlock", "status"]).code, 0);
    fleet.servers[0].kill();
    let done = world.run(&["redlock", "status", "--json"]);
    assert_eq!((done.code, standings(&done)[0].as_str()), (0, "away"));
    fleet.servers[1].kill();
    assert_eq!(world.run(&["redlock", "status"]).code, 69);
    fleet.servers[1].start_again();
    let done = world.run(&["redlock", "admit"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.complaint().contains("tokens=off"), "{done:?}");
}
