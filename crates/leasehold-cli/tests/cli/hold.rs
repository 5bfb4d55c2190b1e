//! A lock for as long as standard input is open.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::world::{Running, World};

/// A hold with its input open, and the line that it printed.
fn holding(world: &World, arguments: &[&str]) -> (Running, Value) {
    let mut command = world.leasehold(arguments);
    let mut running = Running::of(command.stdin(Stdio::piped()));
    let mut line = String::new();
    let mut output = BufReader::new(running.child().stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    running.child().stdout = Some(output.into_inner());
    (running, serde_json::from_str(&line).unwrap())
}

#[testbed::test]
fn a_hold_prints_one_line_and_holds_until_its_input_closes() {
    let world = World::new();
    let (mut running, grant) = holding(&world, &["hold", "--label", "me", "x"]);
    assert_eq!(
        (&grant["name"], &grant["ttl_ms"]),
        (&"x".into(), &10_000.into())
    );
    let fence: leasehold::Fence = grant["fence"].as_str().unwrap().parse().unwrap();
    assert_eq!(grant["token"], fence.token.get());
    assert!(grant["owner"].as_str().unwrap().ends_with("(me)"));
    assert!(grant["waited_ms"].is_u64());
    assert_eq!(world.run(&["run", "-n", "x", "true"]).code, 75);
    drop(running.child().stdin.take());
    let done = running.done();
    assert_eq!(
        (done.code, done.stdout.as_str(), done.stderr.as_str()),
        (0, "", "")
    );
    assert_eq!(world.run(&["run", "-n", "x", "true"]).code, 0);
}

#[testbed::test]
fn a_signal_ends_a_hold_with_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let world = World::new();
        let (running, _) = holding(&world, &["hold", "x"]);
        running.signal(signal);
        assert_eq!(running.done().code, 0);
        world.until_claims("x", 0, 0);
    }
}

#[testbed::test]
fn a_lost_hold_prints_a_second_line_and_is_76() {
    let world = World::new();
    let (running, grant) = holding(&world, &["hold", "x"]);
    assert_eq!(world.run(&["break", "x", "--reason", "because"]).code, 0);
    let done = running.done();
    assert_eq!(done.code, 76);
    let line = done.json();
    assert_eq!(line["token"], grant["token"]);
    assert!(line["lost"].as_str().unwrap().contains("because"), "{line}");
}

#[testbed::test]
fn a_lost_hold_is_76_also_if_nobody_reads_its_output() {
    let world = World::new();
    let (mut running, _) = holding(&world, &["hold", "x"]);
    drop(running.child().stdout.take());
    assert_eq!(world.run(&["break", "x", "--reason", "because"]).code, 0);
    assert_eq!(running.done().code, 76);
}

#[testbed::test]
fn a_hold_ends_at_its_limit() {
    let world = World::new();
    let (running, _) = holding(&world, &["hold", "--max-hold", "200ms", "x"]);
    assert_eq!(running.done().code, 76);
}

#[testbed::test]
fn a_waiting_hold_whose_input_closes_gives_up() {
    let world = World::new();
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let done = world.run(&["hold", "x"]);
    assert_eq!((done.code, done.stdout.as_str()), (75, ""));
    world.until_claims("x", 1, 0);
}

#[testbed::test]
fn a_killed_hold_frees_the_lock() {
    let world = World::new();
    let (running, _) = holding(&world, &["hold", "--ttl", "1h", "x"]);
    running.signal(Signal::SIGKILL);
    assert_eq!(world.run(&["run", "-w", "20s", "x", "true"]).code, 0);
}
