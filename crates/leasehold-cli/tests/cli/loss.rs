//! When the lock is lost while the command runs.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::world::{World, is_alive, until, until_dead};

/// Says that it got SIGTERM and takes no notice of it.
const STUBBORN: &str =
    "trap 'echo told >> heard' TERM; echo $$ > pid; while :; do sleep 0.02; done";

fn heard(world: &World) -> bool {
    world.path("heard").exists()
}

#[testbed::test]
fn a_broken_lock_kills_the_command_and_says_who_and_why() {
    let world = World::new();
    let running = world.start(&["run", "--report", "report", "x", "sh", "-c", STUBBORN]);
    let pid = world.pid("pid");
    let done = world.run(&["break", "x", "--reason", "stuck since noon"]);
    assert_eq!(done.code, 0, "{done:?}");
    let lost = running.done();
    assert_eq!(lost.code, 76);
    assert!(!is_alive(pid));
    assert!(lost.complaint().contains("stuck since noon"), "{lost:?}");
    assert!(lost.complaint().contains('@'), "{lost:?}");
    let report: Value = serde_json::from_str(&world.line("report")).unwrap();
    assert_eq!(
        (&report["outcome"], &report["code"]),
        (&"lost".into(), &76.into())
    );
}

#[testbed::test]
fn a_hold_at_its_limit_is_told_first_and_killed_then() {
    let world = World::new();
    let arguments = [
        "run",
        "--max-hold",
        "9s",
        "--kill-after",
        "4s",
        "x",
        "sh",
        "-c",
        STUBBORN,
    ];
    let lost = world.run(&arguments);
    assert_eq!(lost.code, 76, "{lost:?}");
    assert!(heard(&world));
    assert!(lost.stderr.contains("about to lose x in"), "{lost:?}");
    assert!(
        lost.stderr.contains("limit; the command was killed"),
        "{lost:?}"
    );
    assert!(!is_alive(world.pid("pid")));
}

#[testbed::test]
fn a_command_that_obeys_ends_before_the_limit_and_is_still_76() {
    let world = World::new();
    let script = "trap 'echo tidy; exit 0' TERM; while :; do sleep 0.02; done";
    let lost = world.run(&[
        "run",
        "--max-hold",
        "9s",
        "--kill-after",
        "4500ms",
        "x",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!((lost.code, lost.stdout.trim()), (76, "tidy"), "{lost:?}");
}

#[testbed::test]
fn children_of_an_obedient_command_have_until_the_limit() {
    let world = World::new();
    let script = "
        (trap 'sleep 0.3; echo wound up > inner; exit' TERM; echo > ready; while :; do sleep 0.02; done) &
        trap 'exit 0' TERM
        while :; do sleep 0.02; done";
    let lost = world.run(&[
        "run",
        "--max-hold",
        "9s",
        "--kill-after",
        "4500ms",
        "x",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(lost.code, 76, "{lost:?}");
    assert_eq!(world.line("inner"), "wound up");
}

#[testbed::test]
fn on_lost_kill_gives_no_warning() {
    let world = World::new();
    let lost = world.run(&[
        "run",
        "--on-lost",
        "kill",
        "--max-hold",
        "500ms",
        "x",
        "sh",
        "-c",
        STUBBORN,
    ]);
    assert_eq!(lost.code, 76, "{lost:?}");
    assert!(!heard(&world));
}

#[testbed::test]
fn on_lost_ignore_lets_the_command_end_and_is_76_all_the_same() {
    let world = World::new();
    let script = "echo $$ > pid; until test -e go; do sleep 0.02; done; echo finished; exit 0";
    let running = world.start(&["run", "--on-lost", "ignore", "x", "sh", "-c", script]);
    let pid = world.pid("pid");
    assert_eq!(world.run(&["break", "x", "--reason", "test"]).code, 0);
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    assert!(is_alive(pid));
    std::fs::write(world.path("go"), "").unwrap();
    let lost = running.done();
    assert_eq!(
        (lost.code, lost.stdout.trim()),
        (76, "finished"),
        "{lost:?}"
    );
    assert!(lost.complaint().contains("left to run on"), "{lost:?}");
}

#[testbed::test]
fn a_stopped_leasehold_loses_the_lock_and_kills_the_command_when_it_wakes() {
    let world = World::new();
    let running = world.start(&["run", "--ttl", "500ms", "x", "sh", "-c", STUBBORN]);
    let pid = world.pid("pid");
    running.signal(Signal::SIGSTOP);
    let next = world.run(&["run", "-w", "120s", "x", "true"]);
    assert_eq!(next.code, 0, "{next:?}");
    running.signal(Signal::SIGCONT);
    let lost = running.done();
    assert_eq!(lost.code, 76, "{lost:?}");
    until_dead(pid);
}

#[testbed::test]
fn a_lease_that_cannot_be_renewed_ends_the_command_before_another_gets_in() {
    let world = World::new();
    let running = world.start(&[
        "run",
        "--ttl",
        "9s",
        "--kill-after",
        "4s",
        "x",
        "sh",
        "-c",
        STUBBORN,
    ]);
    let pid = world.pid("pid");
    let database = rusqlite::Connection::open(world.path("locks.db")).unwrap();
    database
        .busy_timeout(std::time::Duration::from_secs(5))
        .unwrap();
    database.execute_batch("begin immediate").unwrap();
    until_dead(pid);
    assert!(heard(&world));
    database.execute_batch("rollback").unwrap();
    let lost = running.done();
    assert_eq!(lost.code, 76, "{lost:?}");
    assert!(lost.stderr.contains("renewed"), "{lost:?}");
}

#[testbed::test]
fn one_of_several_holders_can_be_evicted() {
    let world = World::new();
    let first = world.start(&["run", "--slots", "2", "x", "sleep", "60"]);
    world.until_held("x");
    let token = world.show("x")["holders"][0]["token"].as_u64().unwrap();
    let _second = world.start(&["run", "--slots", "2", "x", "sleep", "60"]);
    world.until_claims("x", 2, 0);
    let token = token.to_string();
    let done = world.run(&[
        "break", "--json", "--token", &token, "x", "--reason", "that one",
    ]);
    assert_eq!(done.json()["evicted"].as_array().unwrap().len(), 1);
    assert_eq!(first.done().code, 76);
    until("the other to hold on", || {
        (world.show("x")["holders"].as_array().unwrap().len() == 1).then_some(())
    });
}
