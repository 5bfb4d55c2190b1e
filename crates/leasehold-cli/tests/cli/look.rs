//! Looking at locks: ls, show, watch, break, doctor, completions, man.

use std::io::{BufRead, BufReader};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::world::World;

#[testbed::test]
fn ls_lists_what_the_pattern_means() {
    let world = World::new();
    assert_eq!(world.run(&["ls"]).stdout, "");
    let _holders: Vec<_> = ["jobs/a", "jobs/b", "other"]
        .into_iter()
        .map(|name| world.start(&["run", "--label", "me", name, "sleep", "60"]))
        .collect();
    for name in ["jobs/a", "jobs/b", "other"] {
        world.until_held(name);
    }
    let names = |pattern: &[&str]| -> Vec<String> {
        let done = world.run(&[&["ls"], pattern].concat());
        assert_eq!(done.code, 0);
        let rows = done.stdout.lines().skip(1);
        rows.map(|row| row.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&[]), ["jobs/a", "jobs/b", "other"]);
    assert_eq!(names(&["jobs/"]), ["jobs/a", "jobs/b"]);
    assert_eq!(names(&["*b*"]), ["jobs/a", "jobs/b"]);
    assert_eq!(names(&["j*/?"]), ["jobs/a", "jobs/b"]);
    assert!(names(&["nothing"]).is_empty());
    let table = world.run(&["ls", "other"]).stdout;
    assert!(
        table.starts_with("NAME ") && table.contains("(me)"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "colours in a pipe: {table:?}");
}

#[testbed::test]
fn ls_and_show_have_a_json_form() {
    let world = World::new();
    assert_eq!(world.run(&["ls", "--json"]).json(), serde_json::json!([]));
    let _holder = world.start(&["run", "--label", "me", "x", "sleep", "60"]);
    world.until_held("x");
    let _waiter = world.start(&["run", "x", "true"]);
    world.until_claims("x", 1, 1);
    let listed = world.run(&["ls", "--json"]).json();
    let shown = world.show("x");
    for lock in [&listed[0], &shown] {
        assert_eq!(
            (&lock["name"], &lock["kind"], &lock["slots"]),
            (&"x".into(), &"mutex".into(), &Value::Null)
        );
        let (holder, waiter) = (&lock["holders"][0], &lock["waiting"][0]);
        assert_eq!(holder["owner"]["label"], "me");
        assert!(holder["owner"]["pid"].is_u64() && holder["owner"]["host"].is_string());
        assert_eq!(holder["mode"], "exclusive");
        assert!(
            holder["token"].is_u64() && holder["age_ms"].is_u64() && holder["ttl_left_ms"].is_u64()
        );
        assert_eq!(waiter["token"], Value::Null);
    }
    assert_eq!(shown["evictions"], serde_json::json!([]));
}

#[testbed::test]
fn show_tells_holders_waiters_and_what_was_broken() {
    let world = World::new();
    assert_eq!(world.run(&["show", "x"]).stdout, "x: free\n");
    let holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let _waiter = world.start(&["run", "x", "sleep", "60"]);
    world.until_claims("x", 1, 1);
    assert_eq!(world.run(&["break", "x", "--reason", "too slow"]).code, 0);
    holder.done();
    world.until_claims("x", 1, 0);
    let shown = world.run(&["show", "x"]).stdout;
    assert!(shown.contains("x: mutex, 0 waiting"), "{shown}");
    assert!(
        shown.contains("holds") && shown.contains("too slow"),
        "{shown}"
    );
    let eviction = &world.show("x")["evictions"][0];
    assert_eq!(eviction["reason"], "too slow");
    assert!(eviction["by"].as_str().unwrap().contains('@'));
    assert!(eviction["token"].is_u64() && eviction["at_ms"].is_u64());
}

#[testbed::test]
fn breaking_a_free_lock_changes_nothing() {
    let world = World::new();
    let done = world.run(&["break", "x", "--reason", "test"]);
    assert_eq!(done.code, 0);
    assert!(done.complaint().contains("x is not held"), "{done:?}");
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let done = world.run(&["break", "x", "--token", "1", "--reason", "test"]);
    assert!(
        done.complaint().contains("not held with token 1"),
        "{done:?}"
    );
    world.until_held("x");
}

#[testbed::test]
fn watch_tells_every_event() {
    let world = World::new();
    let mut watch = world.start(&["watch", "--json", "x*"]);
    let mut lines = BufReader::new(watch.child().stdout.take().unwrap()).lines();
    let mut event = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };

    let holder = world.start(&["run", "--label", "one", "x", "sleep", "60"]);
    let held = event();
    assert_eq!(
        (&held["event"], &held["name"]),
        (&"held".into(), &"x".into())
    );
    assert_eq!(held["owner"]["label"], "one");
    assert!(held["at_ms"].is_u64());
    let waiter = world.start(&["run", "x", "sleep", "60"]);
    assert_eq!(event()["event"], "waiting");
    waiter.signal(Signal::SIGTERM);
    assert_eq!(event()["event"], "left");
    waiter.done();
    assert_eq!(world.run(&["break", "x", "--reason", "why not"]).code, 0);
    let evicted = event();
    assert_eq!(
        (&evicted["event"], &evicted["reason"]),
        (&"evicted".into(), &"why not".into())
    );
    assert_eq!(evicted["token"], held["token"]);
    holder.done();
    let holder = world.start(&["run", "x", "sleep", "60"]);
    assert_eq!(event()["event"], "held");
    holder.signal(Signal::SIGTERM);
    holder.done();
    assert_eq!(event()["event"], "released");
    watch.signal(Signal::SIGINT);
    assert_eq!(watch.done().code, 0);
}

#[testbed::test]
fn watch_ends_by_itself_when_told_how_long() {
    let world = World::new();
    let _holder = world.start(&["run", "x", "sleep", "60"]);
    world.until_held("x");
    let done = world.run(&["watch", "--for", "10ms"]);
    assert_eq!(done.code, 0);
    assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
    assert!(done.stdout.contains(" held "), "{done:?}");
}

#[testbed::test]
fn doctor_tells_promises_and_findings() {
    let world = World::new();
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("fence grade          A"), "{done:?}");
    assert!(done.stdout.contains("\nfine "), "{done:?}");
    let told = world.run(&["doctor", "--json"]).json();
    assert_eq!(
        (&told["fit"], &told["promises"]["fence"]),
        (&true.into(), &"A".into())
    );
    let finding = &told["findings"][0];
    assert!(
        ["severity", "what", "remedy"]
            .iter()
            .all(|key| finding[key].is_string())
    );
}

#[testbed::test]
fn completions_and_manual_come_from_the_arguments() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = world.run(&["completions", shell]);
        assert_eq!(done.code, 0);
        assert!(
            done.stdout.contains("--on-lost") || done.stdout.contains("on-lost"),
            "{shell}"
        );
        assert!(!done.stdout.contains("__keeper"));
    }
    let done = world.run(&["man"]);
    assert!(done.stdout.contains(".TH leasehold 1"), "{done:?}");
    assert_eq!(world.run(&["man", "--all", "pages"]).code, 0);
    let page = std::fs::read_to_string(world.path("pages/leasehold-run.1")).unwrap();
    assert!(page.contains("LEASEHOLD_TOKEN") && page.contains("kill\\-after"));
    assert!(world.path("pages/leasehold.1").is_file());
}

#[testbed::test]
fn help_and_version_are_answers_and_nothing_is_not() {
    let world = World::new();
    assert!(world.run(&["--version"]).stdout.starts_with("leasehold 0."));
    let help = world.run(&["run", "--help"]);
    assert_eq!(help.code, 0);
    assert!(help.stdout.contains("Exit codes:"));
    assert_eq!(world.run(&[]).code, 64);
}
