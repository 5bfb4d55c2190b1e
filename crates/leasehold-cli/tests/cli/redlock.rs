//! Every command on a majority of Redis servers, as on any other store.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::redlock_nodes::Fleet;
use crate::world::{Done, Running, World, bare, until, until_dead};

#[testbed::test]
fn a_command_gets_its_lock_and_enters_it_again() {
    let fleet = Fleet::start(3);
    let world = fleet.world();
    let done = world.run(&["run", "x", "printenv", "LEASEHOLD_TOKEN"]);
    let first: u64 = done.stdout.trim().parse().unwrap();
    let done = world.run(&["run", "x", "printenv", "LEASEHOLD_TOKEN"]);
    assert!(
        done.stdout.trim().parse::<u64>().unwrap() > first,
        "{done:?}"
    );
    let ours = env!("CARGO_BIN_EXE_leasehold");
    let done = world.run(&["run", "x", ours, "run", "-n", "x", "echo", "inside"]);
    assert_eq!((done.code, done.stdout.trim()), (0, "inside"), "{done:?}");
    assert_eq!(world.run(&["run", "x", "sh", "-c", "exit 7"]).code, 7);
    for kind in [&["--slots", "2"][..], &["-s"], &["-x"]] {
        let done = world.run(&[&["run"], kind, &["x", "true"]].concat());
        assert_eq!(done.code, 64, "{done:?}");
        assert!(done.complaint().contains("no readers"), "{done:?}");
    }
}

#[testbed::test]
fn processes_never_count_at_the_same_time() {
    let fleet = Fleet::start(5);
    let world = fleet.world();
    fs::write(world.path("count"), "0").unwrap();
    let add = "n=$(cat count); sleep 0.01; echo $((n + 1)) > count";
    let adding: Vec<_> = (0..8)
        .map(|_| world.start(&["run", "x", "-c", add]))
        .collect();
    for process in adding {
        let done = process.done();
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_eq!(world.line("count"), "8");
}

#[testbed::test]
fn with_two_of_five_away_a_lock_is_seen_refused_and_broken() {
    let mut fleet = Fleet::start(5);
    let world = fleet.world();
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    fleet.servers[0].kill();
    fleet.servers[1].stop();
    let mut hold = world.leasehold(["hold", "x", "--label", "me"]);
    let mut hold = Running::of(hold.stdin(Stdio::piped()));
    world.until_held("x");
    let listed = world.run(&["ls", "--json"]).json();
    assert_eq!(listed[0]["holders"][0]["owner"]["label"], "me", "{listed}");
    let shown = world.show("x");
    assert!(
        shown["holders"][0]["token"].as_u64().unwrap() > 0,
        "{shown}"
    );

    let done = world.run(&["run", "-n", "x", "true"]);
    assert_eq!(done.code, 75);
    assert!(done.complaint().contains("(me)"), "{done:?}");
    assert_eq!(world.run(&["run", "-w", "2s", "x", "true"]).code, 75);

    let done = world.run(&["break", "x", "--yes", "--reason", "it is stuck"]);
    assert_eq!(done.code, 0, "{done:?}");
    until("hold to end", || hold.child().try_wait().unwrap());
    let done = hold.done();
    assert_eq!(done.code, 76, "{done:?}");
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    assert!(
        last["lost"].as_str().unwrap().contains("it is stuck"),
        "{last}"
    );
    let shown = world.show("x");
    assert_eq!(shown["evictions"][0]["reason"], "it is stuck", "{shown}");
    fleet.servers[1].resume();
}

#[testbed::test]
fn when_the_majority_dies_the_command_is_stopped() {
    let mut fleet = Fleet::start(3);
    let world = fleet.world();
    let stuck = "echo $$ > pid; exec sleep 100";
    let run = world.start(&["run", "--ttl", "20s", "x", "-c", stuck]);
    let command = world.pid("pid");
    fleet.servers[0].kill();
    assert_eq!(world.run(&["run", "-n", "x", "true"]).code, 75);
    fleet.servers[1].kill();
    until_dead(command);
    let done = run.done();
    assert_eq!(done.code, 76, "{done:?}");
    let done = world.run(&["ls"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.complaint().contains("1 of 3 nodes answer"), "{done:?}");
}

#[testbed::test]
fn doctor_grades_the_tokens_and_names_what_would_improve_them() {
    let grade = |url: String| -> (Done, Value, String) {
        let done = World::on(url).run(&["doctor", "--json"]);
        let said = done.json();
        let findings = said["findings"].as_array().unwrap().clone();
        let is_grade = |finding: &&Value| finding["what"].as_str().unwrap().contains("fence grade");
        let finding = findings.iter().find(is_grade).unwrap().clone();
        (done, finding, said["promises"]["fence"].to_string())
    };
    let fleet = Fleet::start(3);
    let (done, finding, promised) = grade(fleet.url());
    assert_eq!((done.code, &*promised), (0, "\"A\""), "{done:?}");
    assert_eq!(finding["severity"], "fine");
    assert!(finding["what"].as_str().unwrap().contains("grade A"));

    let (done, finding, promised) = grade(format!("{}?tokens=off", fleet.url()));
    assert_eq!((done.code, &*promised), (0, "\"C\""), "{done:?}");
    assert_eq!(finding["remedy"], "tokens=on, for grade A");

    fleet.servers[2].tell("CONFIG SET maxmemory-policy allkeys-lru");
    let (done, finding, promised) = grade(fleet.url());
    assert_eq!((done.code, &*promised), (0, "\"A\""), "{done:?}");
    // What the engine promises, and why it is less here, are not at odds.
    let what = finding["what"].as_str().unwrap();
    assert!(what.contains("grade C instead of the promised A"), "{what}");
    assert!(finding["remedy"].as_str().unwrap().contains("noeviction"));
    fleet.servers[2].tell("CONFIG SET maxmemory 100mb");
    assert_eq!(grade(fleet.url()).0.code, 78, "it may happen any time");
}

#[testbed::test]
fn doctor_tells_of_nodes_that_do_not_count() {
    let mut fleet = Fleet::start(5);
    let world = fleet.world();
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    fleet.servers[0].kill();
    fleet.servers[1].kill();
    fleet.servers[1].start_again();
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, 0, "{done:?}");
    let (away, empty) = (fleet.servers[0].place(), fleet.servers[1].place());
    assert!(done.stdout.contains(&format!("{away}: ")), "{done:?}");
    let said = format!("{empty} is not admitted");
    assert!(done.stdout.contains(&said), "{done:?}");
    assert!(done.stdout.contains("leasehold redlock admit"), "{done:?}");
}

#[testbed::test]
fn a_benchmark_measures_ours_and_the_bare_requests() {
    let fleet = Fleet::start(3);
    let measure = |only: &str| -> Vec<Value> {
        let arguments = [
            "bench",
            "--json",
            "--url",
            &fleet.url(),
            "--for",
            "90ms",
            "--only",
            only,
        ];
        let done = Done::of(&mut bare(arguments));
        assert_eq!(done.code, 0, "{done:?}");
        serde_json::from_str(&done.stdout).unwrap()
    };
    let value = |figures: &[Value], name: &str| {
        let figure = figures.iter().find(|figure| figure["figure"] == name);
        let value = figure.and_then(|figure| figure["value"].as_f64());
        value.unwrap_or_else(|| panic!("no {name} in {figures:?}"))
    };
    let figures = measure("one task");
    assert!(value(&figures, "raw floor, p50") > 0.0);
    for tokens in ["tokens=off", "with tokens"] {
        for end in ["drop", "release"] {
            let figure = format!("{tokens}, {end} against floor");
            assert!(value(&figures, &figure) > 0.0);
        }
    }
    let figures = measure("one of five hangs");
    assert!(value(&figures, "with tokens against none hung") > 0.0);
}
