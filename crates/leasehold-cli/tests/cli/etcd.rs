//! Every command on etcd, as on any other store.

use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use testbed::etcd::{Etcd, Version};

use crate::world::{Done, Running, World, bare};

pub(crate) fn start(folder: &Path, members: usize) -> Etcd {
    Etcd::start_with(folder, Version::System, members, &[])
}

fn etcd(members: usize) -> (TempDir, Etcd) {
    let folder = TempDir::new().unwrap();
    let etcd = start(folder.path(), members);
    (folder, etcd)
}

#[testbed::test]
fn somebody_elses_claim_is_shown_and_can_be_broken() {
    let (_folder, etcd) = etcd(1);
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

#[testbed::test]
fn doctor_tells_how_many_members_are_well() {
    let (_folder, mut etcd) = etcd(3);
    let world = World::on(etcd.url());
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.stdout.matches(": etcd 3.").count(), 3, "{done:?}");
    etcd.members[2].kill();
    etcd.wait_until_writable();
    let done = world.run(&["doctor"]);
    assert!(done.stdout.contains("does not answer"), "{done:?}");
}

#[testbed::test]
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

#[testbed::test]
fn a_server_that_refuses_is_one_clear_line() {
    let (folder, etcd) = etcd(1);
    let place = etcd.url().replace("etcd://", "");
    refused(&format!("etcds://{place}"), 78, "TLS");
    let learner = etcd.add_learner(folder.path());
    refused(&learner.url(), 69, "name the voting members");
    drop(learner);
}

#[testbed::test]
fn a_wrong_password_is_one_clear_line() {
    let (_folder, etcd) = etcd(1);
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["auth", "enable"]);
    let place = etcd.url().replace("etcd://", "");
    refused(&format!("etcd://root:hunter2@{place}"), 77, "password");
    refused(&format!("etcd://{place}"), 77, "USER:PASSWORD");
}

#[testbed::test]
fn a_member_without_a_majority_is_one_clear_line() {
    let (_folder, mut etcd) = etcd(3);
    etcd.members[1].kill();
    etcd.members[2].kill();
    refused(&etcd.members[0].url(), 69, "majority");
}
