//! `leasehold latch`: it opens when all parts are counted, and not before.

use nix::sys::signal::Signal;

use crate::world::{Done, Running, World, until};

fn latch(world: &World, more: &[&str]) -> Done {
    world.run(&[&["latch", "x", "--count", "3"], more].concat())
}

fn left(world: &World, more: &[&str]) -> String {
    let done = latch(world, more);
    assert_eq!((done.code, &*done.stderr), (0, ""), "{done:?}");
    done.stdout
}

#[testbed::test]
fn on_a_file_who_waits_goes_on_when_all_parts_are_counted() {
    who_waits_goes_on_when_all_parts_are_counted(&World::new());
}

/// On any store that keeps memos.
pub(crate) fn who_waits_goes_on_when_all_parts_are_counted(world: &World) {
    let mut waiting = world.start(&["latch", "x", "--count", "3", "--wait"]);
    assert_eq!(left(world, &[]), "3\n");
    assert_eq!(left(world, &["--down"]), "2\n");
    assert_eq!(left(world, &[]), "2\n");
    assert!(waiting.child().try_wait().unwrap().is_none());
    assert_eq!(left(world, &["--down", "2"]), "0\n");
    let done = waiting.done();
    assert_eq!((done.code, &*done.stdout, &*done.stderr), (0, "", ""));
    // It stays open, and more than all are not counted.
    assert_eq!(left(world, &["--down", "9"]), "0\n");
    assert_eq!(left(world, &["--wait", "--timeout", "1h"]), "");
    assert_eq!(left(world, &["--reset"]), "3\n");
    world.until_claims("x", 0, 0);
}

#[testbed::test]
fn a_latch_that_is_kept_for_a_time_is_forgotten() {
    let world = World::new();
    let kept = left(&world, &["--part", "a", "--keep", "2s"]);
    assert_eq!(kept, "2\n");
    until("it is forgotten", || {
        (left(&world, &[]) == "3\n").then_some(())
    });
    assert_eq!(left(&world, &["--part", "a"]), "2\n");
}

#[testbed::test]
fn a_part_that_has_a_name_is_counted_once() {
    let world = World::new();
    for (part, expected) in [("a", "2\n"), ("a", "2\n"), ("b", "1\n"), ("c", "0\n")] {
        assert_eq!(left(&world, &["--part", part]), expected, "{part}");
    }
}

#[testbed::test]
fn a_wait_ends_at_its_time_or_with_a_signal() {
    let world = World::new();
    let late = latch(&world, &["--wait", "--timeout", "50ms"]);
    assert_eq!(late.code, 75, "{late:?}");
    assert!(late.complaint().contains("latch x: timed out"), "{late:?}");
    let waiting = world.start(&["latch", "x", "--count", "3", "--wait"]);
    until_signals_are_caught(&waiting);
    waiting.signal(Signal::SIGTERM);
    assert_eq!(waiting.done().code, 128 + 15);
}

fn until_signals_are_caught(running: &Running) {
    let status = format!("/proc/{}/status", running.pid());
    until("signals to be caught", || {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        (caught >> (Signal::SIGTERM as i32 - 1) & 1 == 1).then_some(())
    });
}

#[testbed::test]
fn a_latch_has_a_json_form() {
    let world = World::new();
    for (more, left) in [(&[][..], 3), (&["--down", "3"], 0), (&["--wait"], 0)] {
        let told = latch(&world, &[more, &["--json"]].concat()).json();
        let expected = serde_json::json!({ "name": "x", "count": 3, "left": left });
        assert_eq!(told, expected);
    }
}

#[testbed::test]
fn bad_input_is_one_line() {
    let world = World::new();
    assert_eq!(left(&world, &["--down"]), "2\n");
    assert_eq!(world.run(&["once", "used", "--slot", "1", "true"]).code, 0);
    for (arguments, says) in [
        (&["latch", "x"][..], "--count"),
        (&["latch", "y", "--count", "0"], "allowed is 1 to 200"),
        (&["latch", "y", "--count", "201"], "allowed is 1 to 200"),
        (&["latch", "y", "--count", "x"], "--count"),
        (&["latch", "x", "--count", "4"], "in use with 3"),
        (&["latch", "used", "--count", "3"], "choose another name"),
        (&["latch", "", "--count", "3"], "the name is empty"),
        (&["latch", "x", "--count", "3", "--down", "0"], "--down"),
        (
            &["latch", "x", "--count", "3", "--down", "--wait"],
            "--wait",
        ),
        (&["latch", "x", "--count", "3", "--timeout", "1s"], "--wait"),
        (
            &["latch", "x", "--count", "3", "--wait", "--timeout", "0s"],
            "more than zero",
        ),
    ] {
        world.refuses(arguments, 64, says);
    }
    assert_eq!(left(&world, &[]), "2\n");
}
