//! Every command on ZooKeeper, as on any other store.

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::world::{Done, Running, World, bare, until};
use crate::zookeeper_server::{Zookeeper, lacks_zookeeper, must_skip};

pub(crate) fn zookeeper(servers: usize) -> Option<(TempDir, Zookeeper)> {
    if must_skip(lacks_zookeeper()) {
        return None;
    }
    let folder = TempDir::new().unwrap();
    // A stamp is spoilt when the server removes the empty lock, which it looks for
    // once a minute.
    let never = "-Dznode.container.checkIntervalMs=86400000";
    let zookeeper = Zookeeper::start_with(folder.path(), servers, "", &[never]);
    Some((folder, zookeeper))
}

#[test]
fn a_command_gets_its_lock_and_a_greater_token_each_time() {
    let Some((_folder, zookeeper)) = zookeeper(1) else {
        return;
    };
    let world = World::on(zookeeper.url());
    let token = || {
        let done = world.run(&["run", "x", "printenv", "LEASEHOLD_TOKEN"]);
        done.stdout.trim().parse::<u64>().unwrap()
    };
    assert!(token() < token());
    let ours = env!("CARGO_BIN_EXE_leasehold");
    let done = world.run(&["run", "x", ours, "run", "-n", "x", "echo", "inside"]);
    assert_eq!((done.code, done.stdout.trim()), (0, "inside"), "{done:?}");
    assert_eq!(world.run(&["run", "x", "sh", "-c", "exit 7"]).code, 7);
    assert!(
        zookeeper
            .client()
            .children("/x")
            .unwrap_or_default()
            .is_empty()
    );
}

#[test]
fn a_lock_is_seen_refused_and_broken() {
    let Some((_folder, zookeeper)) = zookeeper(3) else {
        return;
    };
    let world = World::on(zookeeper.url());
    let mut hold = world.leasehold(["hold", "x", "--label", "me"]);
    let mut hold = Running::of(hold.stdin(Stdio::piped()));
    world.until_held("x");
    let listed = world.run(&["ls", "--json"]).json();
    assert_eq!(listed[0]["holders"][0]["owner"]["label"], "me", "{listed}");
    let done = world.run(&["run", "-n", "x", "true"]);
    assert_eq!(done.code, 75);
    assert!(done.complaint().contains("(me)"), "{done:?}");
    assert_eq!(world.run(&["run", "-w", "300ms", "x", "true"]).code, 75);
    let done = world.run(&["run", "--slots", "3", "x", "true"]);
    assert_eq!(done.code, 64);
    assert!(done.complaint().contains("in use as a mutex"), "{done:?}");
    let done = world.run(&["break", "x", "--yes", "--reason", "it is stuck"]);
    assert_eq!(done.code, 0, "{done:?}");
    until("hold to end", || hold.child().try_wait().unwrap());
    let done = hold.done();
    assert_eq!(done.code, 76, "{done:?}");
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    let lost = last["lost"].as_str().unwrap();
    assert!(lost.contains("it is stuck"), "{last}");
    let shown = world.show("x");
    assert_eq!(shown["evictions"][0]["reason"], "it is stuck", "{shown}");
}

#[test]
fn somebody_elses_claim_is_shown_and_can_be_broken() {
    let Some((_folder, zookeeper)) = zookeeper(1) else {
        return;
    };
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

#[test]
fn doctor_tells_how_many_servers_are_well() {
    let Some((_folder, mut zookeeper)) = zookeeper(3) else {
        return;
    };
    let world = World::on(zookeeper.url());
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.stdout.matches(": ZooKeeper 3.").count(), 3, "{done:?}");
    let follower = zookeeper.follower();
    zookeeper.servers[follower].kill();
    let done = world.run(&["doctor"]);
    assert!(done.stdout.contains("does not answer"), "{done:?}");
}

#[test]
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

#[test]
fn a_server_that_refuses_is_one_clear_line() {
    let Some((_folder, zookeeper)) = zookeeper(1) else {
        return;
    };
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

#[test]
fn a_benchmark_gives_figures_beside_the_raw_floor() {
    let Some((_folder, zookeeper)) = zookeeper(1) else {
        return;
    };
    let world = World::on(zookeeper.url());
    let url = world.url();
    let words = [
        "--url", &url, "bench", "--json", "--for", "100ms", "--only", "one task",
    ];
    let done = world.run(&words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let figures: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    for name in [
        "lock + unlock, p50",
        "raw floor, p50",
        "p50 against the raw floor",
    ] {
        let figure = figures.iter().find(|figure| figure["figure"] == name);
        assert!(figure.unwrap()["value"].as_f64().unwrap() > 0.0);
    }
}
