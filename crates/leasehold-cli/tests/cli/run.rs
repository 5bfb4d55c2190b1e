//! What a command under a lock sees, and what is reported of it.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::world::{Done, Running, World};

#[testbed::test]
fn the_command_finds_the_lock_in_its_environment() {
    let world = World::new();
    let done = world.run(&["run", "--ttl", "7s", "--label", "me", "jobs/x", "env"]);
    let value = |key: &str| {
        let line = done
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{key}=")));
        line.unwrap_or_else(|| panic!("no {key}: {done:?}"))
            .to_owned()
    };
    assert_eq!(value("LEASEHOLD_NAME"), "jobs/x");
    assert_eq!(value("LEASEHOLD_TTL_MS"), "7000");
    let fence: leasehold::Fence = value("LEASEHOLD_FENCE").parse().unwrap();
    assert_eq!(value("LEASEHOLD_TOKEN"), fence.token.to_string());
    assert!(value("LEASEHOLD_OWNER").ends_with(" (me)"), "{done:?}");
}

#[testbed::test]
fn tokens_grow_from_run_to_run() {
    let world = World::new();
    let token = || -> u64 {
        let done = world.run(&["run", "x", "printenv", "LEASEHOLD_TOKEN"]);
        done.stdout.trim().parse().unwrap()
    };
    let (first, second, third) = (token(), token(), token());
    assert!(first < second && second < third);
}

#[testbed::test]
fn standard_input_and_output_are_the_commands() {
    let world = World::new();
    let mut running = Running::of(world.leasehold(["run", "x", "cat"]).stdin(Stdio::piped()));
    let mut input = running.child().stdin.take().unwrap();
    input.write_all(b"through").unwrap();
    drop(input);
    let done = running.done();
    assert_eq!((done.code, done.stdout.as_str()), (0, "through"));
}

#[testbed::test]
fn a_string_runs_in_a_shell() {
    let world = World::new();
    let done = world.run(&["run", "x", "-c", "echo a | tr a b; exit 4"]);
    assert_eq!((done.code, done.stdout.trim()), (4, "b"));
}

#[testbed::test]
fn the_default_store_is_a_file_in_the_state_folder() {
    let world = World::new();
    let done = Done::of(
        world
            .leasehold(["run", "x", "true"])
            .env_remove("LEASEHOLD_URL")
            .env("XDG_STATE_HOME", world.path("state")),
    );
    assert_eq!(done.code, 0, "{done:?}");
    assert!(world.path("state/leasehold/locks.db").is_file());
}

#[testbed::test]
fn two_runs_of_one_name_take_turns() {
    let world = World::new();
    let script = "test ! -e inside && touch inside && sleep 0.05 && rm inside";
    let mut runs: Vec<_> = (0..8)
        .map(|_| world.start(&["run", "x", "-c", script]))
        .collect();
    for run in runs.drain(..) {
        let done = run.done();
        assert_eq!(done.code, 0, "{done:?}");
    }
}

#[testbed::test]
fn shared_runs_share_and_an_exclusive_one_excludes_them() {
    let world = World::new();
    let _one = world.start(&["run", "-s", "x", "sleep", "60"]);
    world.until_held("x");
    let _two = world.start(&["run", "-s", "x", "sleep", "60"]);
    world.until_claims("x", 2, 0);
    assert_eq!(world.run(&["run", "-n", "-x", "x", "true"]).code, 75);
    let plain = world.run(&["run", "-n", "x", "true"]);
    assert_eq!(plain.code, 64);
    assert!(plain.complaint().contains("use -s or -x"), "{plain:?}");
}

#[testbed::test]
fn a_plain_lock_is_not_shared() {
    let world = World::new();
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let done = world.run(&["run", "-n", "-s", "x", "true"]);
    assert_eq!(done.code, 64);
    assert!(
        done.complaint().contains("in use as a mutex; leave out -s"),
        "{done:?}"
    );
}

#[testbed::test]
fn slots_let_so_many_in_and_no_more() {
    let world = World::new();
    let _one = world.start(&["run", "--slots", "2", "x", "sleep", "60"]);
    let _two = world.start(&["run", "--slots", "2", "x", "sleep", "60"]);
    world.until_claims("x", 2, 0);
    assert_eq!(
        world.run(&["run", "--slots", "2", "-n", "x", "true"]).code,
        75
    );
    let other = world.run(&["run", "--slots", "3", "-n", "x", "true"]);
    assert_eq!(other.code, 64);
    assert!(other.complaint().contains("use --slots 2"), "{other:?}");
}

fn report(world: &World) -> Value {
    let text = std::fs::read_to_string(world.path("report")).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[testbed::test]
fn the_report_tells_a_commands_75_from_ours() {
    let world = World::new();
    assert_eq!(
        world
            .run(&["run", "--report", "report", "x", "-c", "exit 75"])
            .code,
        75
    );
    let told = report(&world);
    assert_eq!(
        (&told["outcome"], &told["code"]),
        (&"child_exit".into(), &75.into())
    );
    assert!(
        told["token"].is_u64() && told["waited_ms"].is_u64() && told["held_ms"].is_u64(),
        "{told}"
    );

    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    assert_eq!(
        world
            .run(&["run", "--report", "report", "-n", "x", "true"])
            .code,
        75
    );
    let told = report(&world);
    assert_eq!(
        (&told["outcome"], &told["token"]),
        (&"held".into(), &Value::Null)
    );
    assert_eq!(
        world
            .run(&["run", "--report", "report", "-w", "50ms", "x", "true"])
            .code,
        75
    );
    assert_eq!(report(&world)["outcome"], "timeout");
    assert_eq!(
        world
            .run(&["run", "--report", "report", "x", "no-such-command"])
            .code,
        127
    );
    assert_eq!(report(&world)["outcome"], "error");
    assert_eq!(
        world
            .run(&["run", "--report", "report", "y", "-c", "kill -9 $$"])
            .code,
        137
    );
    assert_eq!(report(&world)["outcome"], "signal");
}

#[testbed::test]
fn verbose_says_how_long_it_took_and_quiet_nothing() {
    let world = World::new();
    let verbose = world.run(&["run", "-v", "x", "true"]);
    assert!(
        verbose.complaint().contains("got the lock in 0."),
        "{verbose:?}"
    );
    assert!(verbose.complaint().contains(" s, token "), "{verbose:?}");
    assert_eq!(world.run(&["run", "-q", "x", "true"]).stderr, "");
}

#[testbed::test]
fn json_events_go_to_standard_error() {
    let world = World::new();
    let done = world.run(&["run", "--json", "x", "echo", "out"]);
    assert_eq!(done.stdout, "out\n");
    let events: Vec<Value> = done
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 2, "{done:?}");
    assert_eq!(
        (&events[0]["event"], &events[0]["name"]),
        (&"held".into(), &"x".into())
    );
    assert_eq!(
        (&events[1]["outcome"], &events[1]["code"]),
        (&"child_exit".into(), &0.into())
    );
    let failed = world.run(&["run", "--json", "--url", "sqlit:x", "x", "true"]);
    let event: Value = serde_json::from_str(failed.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(event["code"], 78);
    assert!(
        event["error"]
            .as_str()
            .unwrap()
            .contains("did you mean sqlite?")
    );
}
