//! Exit codes, each with the situation that it stands for.

use nix::sys::signal::Signal;

use crate::world::{Done, World, bare};

#[testbed::test]
fn the_commands_own_code_is_passed_on() {
    let world = World::new();
    for code in [0, 1, 42, 255] {
        let done = world.run(&["run", "x", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!((done.code, done.stderr.as_str()), (code, ""));
    }
}

#[testbed::test]
fn a_command_that_a_signal_ends_is_128_and_the_signal() {
    let world = World::new();
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139)] {
        let done = world.run(&["run", "x", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(done.code, code);
    }
}

#[testbed::test]
fn a_lock_held_elsewhere_is_75_at_once_with_nonblock() {
    let world = World::new();
    let _holder = world.start(&["run", "--label", "nightly", "x", "sleep", "60"]);
    world.until_held("x");
    let done = world.run(&["run", "-n", "x", "true"]);
    assert_eq!(done.code, 75);
    assert!(done.complaint().contains("x is held by"), "{done:?}");
    assert!(done.complaint().contains("(nightly)"), "{done:?}");
    assert_eq!(world.run(&["run", "-w", "0", "x", "true"]).code, 75);
    assert_eq!(world.run(&["hold", "-n", "x"]).code, 75);
}

#[testbed::test]
fn a_lock_held_elsewhere_is_75_when_the_wait_is_over() {
    let world = World::new();
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let done = world.run(&["run", "-w", "200ms", "x", "true"]);
    assert_eq!(done.code, 75);
    assert!(done.complaint().contains("gave up after 200ms"), "{done:?}");
    world.until_claims("x", 1, 0);
}

#[testbed::test]
fn the_code_for_held_elsewhere_can_be_chosen() {
    let world = World::new();
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    assert_eq!(world.run(&["run", "-n", "-E", "9", "x", "true"]).code, 9);
    assert_eq!(
        world
            .run(&["run", "-E", "0", "-w", "100ms", "x", "true"])
            .code,
        0
    );
    let skipped = world.run(&["run", "-n", "--skip-ok", "x", "touch", "ran"]);
    assert_eq!((skipped.code, skipped.stderr.as_str()), (0, ""));
    assert!(!world.path("ran").exists());
    let quiet = world.run(&["run", "-q", "-n", "x", "true"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (75, ""));
}

#[testbed::test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_run_126() {
    let world = World::new();
    let missing = world.run(&["run", "x", "no-such-command"]);
    assert_eq!(missing.code, 127);
    assert!(
        missing.complaint().contains("no-such-command"),
        "{missing:?}"
    );
    std::fs::write(world.path("plain"), "text").unwrap();
    let plain = world.run(&["run", "x", "./plain"]);
    assert_eq!(plain.code, 126);
    assert!(plain.complaint().contains("./plain"), "{plain:?}");
}

#[testbed::test]
fn a_command_that_cannot_run_is_told_before_the_wait() {
    let world = World::new();
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    assert_eq!(world.run(&["run", "x", "no-such-command"]).code, 127);
}

#[testbed::test]
fn a_store_that_another_program_keeps_locked_is_69() {
    let world = World::new();
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    let database = rusqlite::Connection::open(world.path("locks.db")).unwrap();
    database.execute_batch("begin immediate").unwrap();
    let done = world.run(&["run", "x", "true"]);
    assert_eq!(done.code, 69);
    assert!(
        done.complaint().contains("another process keeps it locked"),
        "{done:?}"
    );
}

#[testbed::test]
fn a_place_where_nobody_may_write_is_77() {
    let done = Done::of(&mut bare([
        "run",
        "--url",
        "sqlite:/sys/kernel/locks.db",
        "x",
        "true",
    ]));
    assert_eq!(done.code, 77, "{done:?}");
    assert!(
        done.complaint().contains("/sys/kernel/locks.db"),
        "{done:?}"
    );
}

#[testbed::test]
fn a_signal_while_waiting_ends_the_wait_at_once_and_leaves_no_claim() {
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
    ] {
        let world = World::new();
        let _holder = world.start(&["run", "x", "sleep", "60"]);
        world.until_held("x");
        let waiter = world.start(&["run", "--report", "report", "x", "touch", "ran"]);
        world.until_claims("x", 1, 1);
        waiter.signal(signal);
        assert_eq!(waiter.done().code, code);
        world.until_claims("x", 1, 0);
        assert!(!world.path("ran").exists());
        assert!(world.line("report").contains(r#""outcome":"signal""#));
    }
}
