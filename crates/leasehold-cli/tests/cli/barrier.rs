//! `leasehold barrier`: all begin together, and none is done before all are.

use std::fs;

use nix::sys::signal::Signal;

use crate::world::{Running, World, until};

const GO: &str = "echo $$ >> begun; until test -e go; do sleep 0.02; done; echo >> ended";

fn member(world: &World, members: &str, command: &str) -> Running {
    world.start(&["barrier", "x", "--members", members, "-c", command])
}

fn until_lines(world: &World, file: &str, count: usize) {
    until(&format!("{count} lines in {file}"), || {
        (world.lines(file).len() == count).then_some(())
    });
}

#[testbed::test]
fn on_a_file_all_begin_together_and_none_is_done_before_all_are() {
    all_begin_together_and_none_is_done_before_all_are(&World::new());
}

/// On any store that tells who holds.
pub(crate) fn all_begin_together_and_none_is_done_before_all_are(world: &World) {
    let mut fast = member(world, "3", "echo >> begun; exit 3");
    let mut other = member(world, "3", "echo >> begun");
    world.until_claims("x", 2, 0);
    assert!(world.lines("begun").is_empty());
    let slow = member(world, "3", GO);
    until_lines(world, "begun", 3);
    // The fast ones have left, and wait for the slow one.
    world.until_claims("x", 1, 0);
    for running in [&mut fast, &mut other] {
        assert!(running.child().try_wait().unwrap().is_none());
    }
    fs::write(world.path("go"), "").unwrap();
    let codes = [fast, other, slow].map(|running| running.done().code);
    assert_eq!(codes, [3, 0, 0]);
    assert_eq!(world.lines("ended").len(), 1);
    world.until_claims("x", 0, 0);
}

#[testbed::test]
fn a_member_that_is_killed_holds_nobody_up() {
    let world = World::new();
    let dead = member(&world, "2", GO);
    let other = member(&world, "2", "true");
    until_lines(&world, "begun", 1);
    dead.signal(Signal::SIGKILL);
    assert_eq!(other.done().code, 0);
    assert!(world.lines("ended").is_empty());
}

#[testbed::test]
fn a_member_that_is_told_to_end_waits_for_nobody() {
    let world = World::new();
    let told = member(
        &world,
        "2",
        "trap 'echo > told; exit 0' TERM; echo >> begun; sleep 60 & wait",
    );
    let _other = member(&world, "2", GO);
    until_lines(&world, "begun", 2);
    told.signal(Signal::SIGTERM);
    // Not 0: whoever goes by it would take the other for done.
    assert_eq!(told.done().code, 143);
    assert_eq!(world.lines("told").len(), 1);
    world.until_claims("x", 1, 0);
}

#[testbed::test]
fn a_member_that_does_not_count_any_more_is_stopped() {
    let world = World::new();
    let both = [member(&world, "2", GO), member(&world, "2", GO)];
    until_lines(&world, "begun", 2);
    assert_eq!(world.run(&["break", "x", "--reason", "because"]).code, 0);
    for running in both {
        let done = running.done();
        assert_eq!(done.code, 76, "{done:?}");
        assert!(done.complaint().contains("because"), "{done:?}");
    }
    assert!(world.lines("ended").is_empty());
}

#[testbed::test]
fn a_wait_for_others_ends_at_its_time() {
    let world = World::new();
    let arguments = [
        "barrier",
        "x",
        "--members",
        "2",
        "--timeout",
        "50ms",
        "--",
        "true",
    ];
    world.refuses(&arguments, 75, "barrier x: timed out");
    world.until_claims("x", 0, 0);
}

#[testbed::test]
fn a_member_that_takes_too_long_is_told_and_goes_on() {
    let world = World::new();
    let slow = "until test -e told; do sleep 0.02; done; exit 3";
    let hook = "echo $LEASEHOLD_NAME >> told";
    let both = [slow, "true"].map(|command| {
        let stuck = ["--stuck-after", "200ms", "--on-stuck", hook];
        let member = ["barrier", "x", "--members", "2"];
        world.start(&[&member[..], &stuck, &["-c", command]].concat())
    });
    assert_eq!(both.map(|running| running.done().code), [3, 0]);
    // Waiting for each other, before and after, is no work that takes long.
    assert_eq!(world.lines("told"), ["x"]);
}

#[testbed::test]
fn a_signal_that_comes_with_the_commands_end_counts() {
    let world = World::new();
    for _ in 0..5 {
        let told = member(&world, "1", "trap '' TERM; kill -TERM $PPID; exit 0");
        assert_eq!(told.done().code, 143);
    }
}

#[testbed::test]
fn bad_input_is_one_line() {
    let world = World::new();
    let _waiting = member(&world, "2", "true");
    world.until_claims("x", 1, 0);
    for (arguments, says) in [
        (&["barrier", "y", "--members", "2"][..], "COMMAND>"),
        (&["barrier", "y", "true"], "--members"),
        (&["barrier", "y", "--members", "0", "true"], "1 to 200"),
        (&["barrier", "y", "--members", "201", "true"], "1 to 200"),
        (
            &["barrier", "", "--members", "2", "true"],
            "the name is empty",
        ),
        (
            &["barrier", "x", "--members", "3", "true"],
            "semaphore of 2",
        ),
        (
            &["barrier", "y", "--members", "2", "--timeout", "0s", "true"],
            "more than zero",
        ),
    ] {
        let done = world.run(arguments);
        assert_eq!(done.code, 64, "{arguments:?} {done:?}");
        assert!(done.complaint().contains(says), "{arguments:?} {done:?}");
    }
    let _plain = world.start(&["run", "plain", "sleep", "60"]);
    world.until_held("plain");
    let plain = ["barrier", "plain", "--members", "2", "true"];
    world.refuses(&plain, 64, "plain");
    let missing = ["barrier", "y", "--members", "2", "/nowhere"];
    world.refuses(&missing, 127, "/nowhere");
}
