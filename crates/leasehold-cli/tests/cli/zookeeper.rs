//! Every command on ZooKeeper, as on any other store.

use std::path::Path;

use tempfile::TempDir;
use testbed::zookeeper::Zookeeper;

use crate::world::{Done, World, bare};

pub(crate) fn start(folder: &Path, servers: usize) -> Zookeeper {
    // A stamp is spoilt when the server removes the empty lock, which it looks for
    // once a minute.
    let never = "-Dznode.container.checkIntervalMs=86400000";
    Zookeeper::start_with(folder, servers, "", &[never])
}

fn zookeeper(servers: usize) -> (TempDir, Zookeeper) {
    let folder = TempDir::new().unwrap();
    let zookeeper = start(folder.path(), servers);
    (folder, zookeeper)
}

#[testbed::test]
fn somebody_elses_claim_is_shown_and_can_be_broken() {
    let (_folder, zookeeper) = zookeeper(1);
    let world = World::on(zookeeper.url());
    let mut theirs = zookeeper.client();
    theirs.create("/x", 0).unwrap();
    theirs.create("/x/_c_0-lock-", 3).unwrap();
    let shown = world.show("x");
    let label = shown["holders"][0]["owner"]["label"].as_str().unwrap();
    assert!(label.starts_with("another program"), "{shown}");
    let done = world.run(&["break", "x", "--yes", "--reason", "it is stuck"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(world.run(&["run", "-n", "x", "true"]).code, 0);
    drop(theirs);
}

#[testbed::test]
fn doctor_tells_how_many_servers_are_well() {
    let (_folder, mut zookeeper) = zookeeper(3);
    let world = World::on(zookeeper.url());
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.stdout.matches(": ZooKeeper 3.").count(), 3, "{done:?}");
    let follower = zookeeper.follower();
    zookeeper.servers[follower].kill();
    let done = world.run(&["doctor"]);
    assert!(done.stdout.contains("does not answer"), "{done:?}");
}

#[testbed::test]
fn bad_input_is_one_clear_line() {
    let url = |url: &str| Done::of(&mut bare(["--url", url, "run", "x", "true"]));
    for (place, code, part) in [
        ("zk:", 78, "names no server"),
        ("zk://", 78, "empty"),
        ("zk://a:b", 78, "port"),
        ("zk://a//b", 78, "chroot"),
        ("zk://a?layout=consul", 78, "layout"),
        ("zk://a?ca=x.pem", 78, "unknown option"),
        ("zk://hunter2@a", 78, "USER:PASSWORD"),
        ("zk://127.0.0.1:1", 69, "refused"),
    ] {
        let done = url(place);
        assert_eq!(done.code, code, "{place}: {done:?}");
        assert!(done.complaint().contains(part), "{place}: {done:?}");
        assert!(!done.stderr.contains("hunter2"), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
}

#[testbed::test]
fn a_server_that_refuses_is_one_clear_line() {
    let (_folder, zookeeper) = zookeeper(1);
    let mut client = zookeeper.client();
    client.create("/passing", 1).unwrap();
    client.create("/kazoos", 0).unwrap();
    client.create("/kazoos/ab__lock__", 3).unwrap();
    let nowhere = World::on(format!("{}/nowhere", zookeeper.url()));
    let done = nowhere.run(&["run", "x", "true"]);
    assert_eq!(done.code, 78, "{done:?}");
    assert!(done.complaint().contains("/nowhere"), "{done:?}");
    let world = World::on(zookeeper.url());
    let done = world.run(&["run", "passing", "true"]);
    assert_eq!(done.code, 64, "{done:?}");
    let done = world.run(&["run", "kazoos", "true"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.complaint().contains("mixed dialects"), "{done:?}");
    assert!(done.complaint().contains("ab__lock__"), "{done:?}");
    let place = zookeeper.servers[0].place();
    let ann = World::on(format!("zk://ann:secret@{place}"));
    assert_eq!(ann.run(&["run", "anns", "true"]).code, 0);
    let done = world.run(&["run", "anns", "true"]);
    assert_eq!(done.code, 77, "{done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
}
