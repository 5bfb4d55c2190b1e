//! Disks that are full or may not be written, mounted in a namespace of the
//! test's own (`unshare` of util-linux).

use std::process::Command;

use crate::world::{Done, World};

/// Runs the script where mounting harms nobody, with `$1` for an empty folder
/// and `leasehold` for the program; `None` if this machine does not allow it.
fn mounted(world: &World, script: &str) -> Done {
    let folder = world.path("disk");
    std::fs::create_dir(&folder).unwrap();
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-euc"]);
        command
    };
    let is_allowed = unshare()
        .args(["mount -t tmpfs tmpfs \"$1\"", "sh"])
        .arg(&folder)
        .output()
        .is_ok_and(|output| output.status.success());
    testbed::need((!is_allowed).then_some("the right to unshare and mount"));
    let program = env!("CARGO_BIN_EXE_leasehold");
    let script = format!("leasehold() {{ '{program}' \"$@\"; }}; {script}");
    let mut command = unshare();
    command.args([&script, "sh"]).arg(&folder);
    Done::of(&mut command)
}

#[testbed::test]
fn a_full_disk_is_one_clear_line_and_nothing_is_lost() {
    let world = World::new();
    let script = r#"
        mount -t tmpfs -o size=256k tmpfs "$1"
        export LEASEHOLD_URL="sqlite:$1/locks.db"
        leasehold run x -- true
        dd if=/dev/zero of="$1/filler" bs=1k 2>/dev/null || true
        code=0; leasehold run x -- echo ran || code=$?
        echo "full: $code"
        rm "$1/filler"
        leasehold run x -- echo works again
    "#;
    let done = mounted(&world, script);
    assert_eq!(done.stdout, "full: 69\nworks again\n", "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert!(done.stderr.contains("disk is full"), "{}", done.stderr);
}

#[testbed::test]
fn a_read_only_disk_is_denied() {
    let world = World::new();
    let script = r#"
        mount -t tmpfs tmpfs "$1"
        export LEASEHOLD_URL="sqlite:$1/locks.db"
        leasehold run x -- true
        mount -o remount,ro "$1"
        code=0; leasehold run x -- echo ran || code=$?
        echo "read-only: $code"
    "#;
    let done = mounted(&world, script);
    assert_eq!(done.stdout, "read-only: 77\n", "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
}

#[testbed::test]
fn a_file_system_whose_locks_may_not_hold_is_refused() {
    let world = World::new();
    let script = r#"
        mount -t tmpfs tmpfs "$1"
        mkdir "$1/local" "$1/remote"
        bindfs "$1/local" "$1/remote" || { echo none; exit; }
        code=0; leasehold --url "sqlite:$1/remote/locks.db" run x -- echo ran || code=$?
        echo "remote: $code, $(ls "$1/local" | wc -l) files"
        umount "$1/remote"
    "#;
    let done = mounted(&world, script);
    if done.stdout == "none\n" {
        testbed::need(Some("the right to mount a FUSE file system, or bindfs"));
    }
    assert_eq!(done.stdout, "remote: 78, 0 files\n", "{}", done.stderr);
    assert!(done.stderr.contains("is on fuse"), "{}", done.stderr);
}
