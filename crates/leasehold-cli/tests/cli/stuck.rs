//! Locks that do not come free: who waits in a circle, and who holds for long.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::world::{Done, Running, World, until};

const SELF: &str = env!("CARGO_BIN_EXE_leasehold");

/// Two runs, each inside the lock that the other one waits for.
fn entangled(world: &World) -> [Running; 2] {
    let run = |outer: &str, inner: &str| {
        let script = format!("until test -e go; do sleep 0.02; done; {SELF} run {inner} true");
        world.start(&["run", "--label", outer, outer, "-c", &script])
    };
    let both = [run("a", "b"), run("b", "a")];
    world.until_held("a");
    world.until_held("b");
    fs::write(world.path("go"), "").unwrap();
    world.until_claims("a", 1, 1);
    world.until_claims("b", 1, 1);
    both
}

/// Runs what the doctor prescribed, as a shell reads it.
fn obey(world: &World, command: &str) {
    let ours = command.strip_prefix("leasehold").unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{SELF}{ours}")]);
    shell.env("LEASEHOLD_URL", world.url());
    let done = Done::of(&mut shell);
    assert_eq!(done.code, 0, "{command}: {done:?}");
}

#[testbed::test]
fn doctor_finds_a_deadlock_and_its_remedy_ends_it() {
    let world = World::new();
    let both = entangled(&world);
    let done = world.run(&["doctor", "--deadlocks"]);
    assert_eq!(done.code, 75, "{done:?}");
    let told = &done.stdout;
    assert!(told.contains("deadlock 2 wait for each other"), "{told}");
    assert!(
        told.contains("waits for a (") && told.contains("waits for b ("),
        "{told}"
    );
    assert!(told.contains("(a)") && told.contains("(in "), "{told}");
    let (_, remedy) = told.split_once("to end it: ").unwrap();
    obey(&world, remedy.trim());
    let mut codes = both.map(|run| run.done().code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 76], "one was broken and the other got through");
    let done = world.run(&["doctor", "--deadlocks"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("nobody waits in a circle"), "{done:?}");
}

#[testbed::test]
fn a_deadlock_has_a_json_form() {
    let world = World::new();
    let none = world.run(&["doctor", "--deadlocks", "--json"]).json();
    assert_eq!(none["deadlocks"], serde_json::json!([]));
    let _both = entangled(&world);
    let done = world.run(&["doctor", "--deadlocks", "--json"]);
    assert_eq!(done.code, 75, "{done:?}");
    let told = done.json();
    let deadlocks = told["deadlocks"].as_array().unwrap();
    assert_eq!(deadlocks.len(), 1, "{told}");
    let waits = deadlocks[0]["waits"].as_array().unwrap();
    let mut names: Vec<_> = waits.iter().map(|wait| wait["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, [Some("a"), Some("b")]);
    for wait in waits {
        assert_eq!(wait["is_held"], true);
        assert_eq!(wait["waiter"]["token"], Value::Null);
        assert!(wait["blocker"]["token"].is_u64() && wait["waiter"]["age_ms"].is_u64());
        assert!(wait["blocker"]["owner"]["pid"].is_u64(), "{wait}");
    }
    assert!(deadlocks[0]["break"]["token"].is_u64(), "{told}");
}

#[testbed::test]
fn those_who_only_wait_are_no_deadlock() {
    let world = World::new();
    let _holders = ["a", "b"].map(|name| {
        let script = format!("{SELF} run c sleep 60");
        world.start(&["run", name, "-c", &script])
    });
    world.until_claims("c", 1, 1);
    let _waiters = ["a", "b"].map(|name| world.start(&["run", name, "true"]));
    world.until_claims("a", 1, 1);
    world.until_claims("b", 1, 1);
    let done = world.run(&["doctor", "--deadlocks"]);
    assert_eq!(done.code, 0, "{done:?}");
}

#[testbed::test]
fn a_url_with_options_is_not_printed() {
    let world = World::new();
    let _both = entangled(&world);
    let url = format!("{}?label=canary", world.url());
    let told = world.run(&["doctor", "--deadlocks", "--url", &url]).stdout;
    assert!(told.contains("with the --url that you gave here"), "{told}");
    assert!(!told.contains("canary"), "{told}");
    let told = world.run(&["doctor", "--deadlocks", "--url", &world.url()]);
    assert!(told.stdout.contains(" --url sqlite:/"), "{told:?}");
}

#[testbed::test]
fn ls_tells_who_holds_for_long() {
    let world = World::new();
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let done = world.run(&["ls", "--held-over", "1h"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{done:?}");
    let none = world.run(&["ls", "--held-over", "1h", "--json"]).json();
    assert_eq!(none, serde_json::json!([]));
    until("the lock to be held for long", || {
        let listed = world.run(&["ls", "--held-over", "200ms", "--json"]).json();
        let lock = listed.as_array().unwrap().first()?;
        assert_eq!(lock["name"], "x");
        assert!(lock["holders"][0]["age_ms"].as_u64().unwrap() >= 200);
        Some(())
    });
    let table = world.run(&["ls", "--held-over", "200ms"]).stdout;
    assert!(table.lines().any(|row| row.starts_with("x ")), "{table}");
}

/// Says what it finds in its environment.
const HOOK: &str =
    r#"echo "$LEASEHOLD_NAME $LEASEHOLD_TOKEN $LEASEHOLD_HELD_MS $LEASEHOLD_HELD" >> told"#;

/// What the hook said: the lock's name and token.
fn told(world: &World) -> (String, String) {
    let told = world.line("told");
    let [name, token, held] = told.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{told}");
    };
    assert!(held.parse::<u64>().unwrap() >= 100, "{told}");
    (name.to_owned(), token.to_owned())
}

#[testbed::test]
fn a_hold_that_outlives_its_time_is_told_and_goes_on() {
    let job = "until test -s told; do sleep 0.02; done; echo $LEASEHOLD_TOKEN";
    for (command, name) in [
        (&["run", "x"][..], "x"),
        (&["elect", "x"], "x"),
        (&["once", "x", "--slot", "1"], "x"),
        (&["once", "--key", "k"], "dedupe/k"),
    ] {
        let world = World::new();
        let stuck = ["--stuck-after", "100ms", "--on-stuck", HOOK, "-c", job];
        let done = world.run(&[command, &stuck].concat());
        assert_eq!(done.code, 0, "{command:?}: {done:?}");
        let says = format!("{name} has been held for ");
        assert!(done.complaint().contains(&says), "{command:?}: {done:?}");
        assert_eq!(told(&world), (name.into(), done.stdout.trim().into()));
    }
}

#[testbed::test]
fn a_hold_for_a_script_that_outlives_its_time_is_told_and_goes_on() {
    let world = World::new();
    let mut hold = world.leasehold(["hold", "x", "--stuck-after", "100ms", "--on-stuck", HOOK]);
    let mut hold = Running::of(hold.stdin(Stdio::piped()));
    let (name, token) = told(&world);
    let holder = world.show("x")["holders"][0]["token"].to_string();
    assert_eq!((name.as_str(), token), ("x", holder));
    drop(hold.child().stdin.take());
    let done = hold.done();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.complaint().contains("x has been held for "),
        "{done:?}"
    );
    assert_eq!(world.lines("told").len(), 1);
}

#[testbed::test]
fn a_hold_that_is_told_without_a_command_is_an_event_too() {
    let world = World::new();
    let mut run = world.start(&[
        "run",
        "--json",
        "--stuck-after",
        "50ms",
        "x",
        "-c",
        "until test -e go; do sleep 0.02; done",
    ]);
    let stderr = run.child().stderr.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
    let stuck = lines.find_map(|line| {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        (event["event"] == "stuck").then_some(event)
    });
    let stuck = stuck.unwrap();
    assert_eq!(stuck["name"], "x");
    assert!(stuck["held_ms"].as_u64().unwrap() >= 50);
    fs::write(world.path("go"), "").unwrap();
    assert_eq!(run.done().code, 0);
}

#[testbed::test]
fn a_hook_needs_a_time_and_a_time_is_more_than_nothing() {
    let world = World::new();
    for command in ["run", "elect", "once", "hold"] {
        let hook = [command, "--on-stuck", "true", "x"];
        let done = world.run(&hook);
        assert_eq!(done.code, 64, "{done:?}");
        assert!(done.complaint().contains("--stuck-after"), "{done:?}");
        world.refuses(&[command, "--stuck-after", "0s", "x"], 64, "more than zero");
    }
    let inner = ["run", "x", SELF, "run", "--stuck-after", "1s", "x", "true"];
    let done = world.run(&inner);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(
        done.stderr.contains("give --stuck-after to that one"),
        "{done:?}"
    );
}
