//! Every command on etcd, as on any other store.

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::etcd_server::{Etcd, Version, must_skip};
use crate::world::{Done, Running, World, bare, until};

pub(crate) fn etcd(members: usize) -> Option<(TempDir, Etcd)> {
    if must_skip(Version::System.lacks()) {
        return None;
    }
    let folder = TempDir::new().unwrap();
    let etcd = Etcd::start_with(folder.path(), Version::System, members, &[]);
    Some((folder, etcd))
}

#[test]
fn a_command_gets_its_lock_and_a_greater_token_each_time() {
    let Some((_folder, etcd)) = etcd(1) else {
        return;
    };
    let world = World::on(etcd.url());
    let token = || {
        let done = world.run(&["run", "x", "printenv", "LEASEHOLD_TOKEN"]);
        done.stdout.trim().parse::<u64>().unwrap()
    };
    assert!(token() < token());
    let ours = env!("CARGO_BIN_EXE_leasehold");
    let done = world.run(&["run", "x", ours, "run", "-n", "x", "echo", "inside"]);
    assert_eq!((done.code, done.stdout.trim()), (0, "inside"), "{done:?}");
    assert_eq!(world.run(&["run", "x", "sh", "-c", "exit 7"]).code, 7);
    assert_eq!(etcd.ctl(&["get", "x/", "--prefix"]), "");
}

#[test]
fn a_lock_is_seen_refused_and_broken() {
    let Some((_folder, etcd)) = etcd(3) else {
        return;
    };
    let world = World::on(etcd.url());
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
    let Some((_folder, etcd)) = etcd(1) else {
        return;
    };
    let world = World::on(etcd.url());
    let mut etcdctl = etcd.etcdctl();
    let theirs = Running::of(etcdctl.args(["lock", "x"]).stdout(Stdio::null()));
    world.until_held("x");
    let shown = world.show("x");
    let label = shown["holders"][0]["owner"]["label"].as_str().unwrap();
    assert!(label.starts_with("another program"), "{shown}");
    let done = world.run(&["break", "x", "--yes", "--reason", "it is stuck"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(world.run(&["run", "-n", "x", "true"]).code, 0);
    drop(theirs);
}

#[test]
fn doctor_tells_how_many_members_are_well() {
    let Some((_folder, mut etcd)) = etcd(3) else {
        return;
    };
    let world = World::on(etcd.url());
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.stdout.matches(": etcd 3.").count(), 3, "{done:?}");
    etcd.members[2].kill();
    etcd.wait_until_writable();
    let done = world.run(&["doctor"]);
    assert!(done.stdout.contains("does not answer"), "{done:?}");
}

#[test]
fn bad_input_is_one_clear_line() {
    let url = |url: &str| Done::of(&mut bare(["--url", url, "run", "x", "true"]));
    for (place, code, part) in [
        ("etcd:", 78, "names no server"),
        ("etcd://", 78, "empty"),
        ("etcd://a:b", 78, "port"),
        ("etcd://a?ca=x.pem", 78, "write etcds:"),
        ("etcds://a?cert=x.pem", 78, "cert and key go together"),
        ("etcd://hunter2@a", 78, "USER:PASSWORD"),
        ("etcd://127.0.0.1:1", 69, "refused"),
        ("etcds://127.0.0.1:1?ca=/nowhere", 78, "/nowhere"),
    ] {
        let done = url(place);
        assert_eq!(done.code, code, "{place}: {done:?}");
        assert!(done.complaint().contains(part), "{place}: {done:?}");
        assert!(!done.stderr.contains("hunter2"), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
}

/// A command on a store that refuses: one line that says this, and this code.
fn refused(url: &str, code: i32, part: &str) {
    let done = Done::of(&mut bare(["--url", url, "run", "x", "true"]));
    assert_eq!(done.code, code, "{part}: {done:?}");
    assert!(done.complaint().contains(part), "{part}: {done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    assert!(!done.stderr.contains("hunter2"), "{done:?}");
}

#[test]
fn a_server_that_refuses_is_one_clear_line() {
    let Some((folder, etcd)) = etcd(1) else {
        return;
    };
    let place = etcd.url().replace("etcd://", "");
    refused(&format!("etcds://{place}"), 78, "TLS");
    let learner = etcd.add_learner(folder.path());
    refused(&learner.url(), 69, "name the voting members");
    drop(learner);
}

#[test]
fn a_wrong_password_is_one_clear_line() {
    let Some((_folder, etcd)) = etcd(1) else {
        return;
    };
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["auth", "enable"]);
    let place = etcd.url().replace("etcd://", "");
    refused(&format!("etcd://root:hunter2@{place}"), 77, "password");
    refused(&format!("etcd://{place}"), 77, "USER:PASSWORD");
}

#[test]
fn a_member_without_a_majority_is_one_clear_line() {
    let Some((_folder, mut etcd)) = etcd(3) else {
        return;
    };
    etcd.members[1].kill();
    etcd.members[2].kill();
    refused(&etcd.members[0].url(), 69, "majority");
}

#[test]
fn a_benchmark_gives_figures_beside_the_raw_floor() {
    let Some((_folder, etcd)) = etcd(1) else {
        return;
    };
    let world = World::on(etcd.url());
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
