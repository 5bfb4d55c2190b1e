//! Every command on PostgreSQL, as on any other store.

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::postgres_server::{Postgres, lacks_postgres, must_skip};
use crate::world::{Done, Running, World, bare, until};

pub(crate) fn postgres(settings: &[&str]) -> Option<(TempDir, Postgres)> {
    if must_skip(lacks_postgres()) {
        return None;
    }
    let folder = TempDir::new().unwrap();
    let server = Postgres::start(folder.path(), settings);
    Some((folder, server))
}

#[test]
fn a_command_gets_its_lock_and_a_greater_token_each_time() {
    let Some((_folder, server)) = postgres(&[]) else {
        return;
    };
    let world = World::on(server.url());
    let token = || {
        let done = world.run(&["run", "x", "printenv", "LEASEHOLD_TOKEN"]);
        done.stdout.trim().parse::<u64>().unwrap()
    };
    assert!(token() < token());
    let ours = env!("CARGO_BIN_EXE_leasehold");
    let done = world.run(&["run", "x", ours, "run", "-n", "x", "echo", "inside"]);
    assert_eq!((done.code, done.stdout.trim()), (0, "inside"), "{done:?}");
    assert_eq!(world.run(&["run", "x", "sh", "-c", "exit 7"]).code, 7);
    assert_eq!(server.sql("select count(*) from leasehold.claim"), "0");
    assert_eq!(server.sql("select count(*) from leasehold.session"), "0");
}

#[test]
fn a_lock_is_seen_refused_and_broken() {
    let Some((_folder, server)) = postgres(&[]) else {
        return;
    };
    let world = World::on(server.url());
    let mut hold = world.leasehold(["hold", "x", "--label", "me"]);
    let mut hold = Running::of(hold.stdin(Stdio::piped()));
    world.until_held("x");
    let listed = world.run(&["ls", "--json"]).json();
    assert_eq!(listed[0]["holders"][0]["owner"]["label"], "me", "{listed}");
    let done = world.run(&["run", "-n", "x", "true"]);
    assert_eq!(done.code, 75);
    assert!(done.complaint().contains("(me)"), "{done:?}");
    assert_eq!(world.run(&["run", "-w", "300ms", "x", "true"]).code, 75);
    let done = world.run(&["run", "--slots", "3", "x", "true"]);
    assert_eq!(done.code, 64);
    assert!(done.complaint().contains("in use as a mutex"), "{done:?}");
    let done = world.run(&["break", "x", "--yes", "--reason", "it is stuck"]);
    assert_eq!(done.code, 0, "{done:?}");
    until("hold to end", || hold.child().try_wait().unwrap());
    let done = hold.done();
    assert_eq!(done.code, 76, "{done:?}");
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    let lost = last["lost"].as_str().unwrap();
    assert!(lost.contains("it is stuck"), "{last}");
    let shown = world.show("x");
    assert_eq!(shown["evictions"][0]["reason"], "it is stuck", "{shown}");
}

#[test]
fn a_schema_that_is_printed_serves_a_role_that_may_not_make_one() {
    let Some((_folder, server)) = postgres(&[]) else {
        return;
    };
    server.sql("create role app login");
    let world = World::on(format!("{}?schema=my%20locks", server.url_as("app")));
    let done = world.run(&["run", "x", "true"]);
    assert_eq!(done.code, 77, "{done:?}");
    assert!(done.complaint().contains("leasehold schema"), "{done:?}");
    let done = world.run(&["schema"]);
    assert_eq!(done.code, 0, "{done:?}");
    server.sql(&done.stdout);
    server.sql(
        "grant usage on schema \"my locks\" to app; \
         grant usage on sequence \"my locks\".token to app; \
         grant select, insert, update, delete on all tables in schema \"my locks\" to app",
    );
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    let done = Done::of(&mut bare(["--url", "sqlite:x.db", "schema"]));
    assert_eq!(done.code, 78, "{done:?}");
}

#[test]
fn doctor_says_what_is_weak() {
    let Some((_folder, server)) = postgres(&["synchronous_commit=off"]) else {
        return;
    };
    let world = World::on(server.url());
    let done = world.run(&["doctor"]);
    // These servers of tests have fsync off.
    assert_eq!(done.code, 78, "{done:?}");
    for part in [
        "PostgreSQL ",
        "fsync is off",
        "synchronous_commit",
        "told at once",
    ] {
        assert!(done.stdout.contains(part), "{part}: {done:?}");
    }
}

#[test]
fn bad_input_is_one_clear_line() {
    let Some((_folder, server)) = postgres(&[]) else {
        return;
    };
    let missing = format!("postgres://u@127.0.0.1:{}/nowhere", server.port);
    let url = |url: &str| Done::of(&mut bare(["--url", url, "run", "x", "true"]));
    for (place, code, part) in [
        ("postgres:", 78, "names no server"),
        ("postgres://a:b/c", 78, "port"),
        ("postgres://a,/c", 78, "a host between commas"),
        (
            "postgres://127.0.0.1:1,127.0.0.1:2/c",
            69,
            "none of the servers",
        ),
        ("postgres://a/c?schema=", 78, "1 to 63 bytes"),
        ("postgres://a/c?sslcert=x.pem", 78, "go together"),
        ("postgres://a/c?sslmode=of", 78, "sslmode"),
        ("postgres://u:hunter2@127.0.0.1:1/c", 69, "refused"),
        (missing.as_str(), 78, "nowhere"),
    ] {
        let done = url(place);
        assert_eq!(done.code, code, "{place}: {done:?}");
        assert!(done.complaint().contains(part), "{place}: {done:?}");
        assert!(!done.stderr.contains("hunter2"), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
    let world = World::on(server.url());
    let long = "x".repeat(513);
    let done = world.run(&["run", &long, "true"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert_eq!(world.run(&["run", &long[..512], "true"]).code, 0);
}

#[test]
fn a_benchmark_gives_figures_beside_the_raw_floor() {
    let Some((_folder, server)) = postgres(&[]) else {
        return;
    };
    let world = World::on(server.url());
    let url = world.url();
    let words = [
        "--url", &url, "bench", "--json", "--for", "100ms", "--only", "one task",
    ];
    let done = world.run(&words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let figures: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    for name in [
        "lock + unlock, p50",
        "raw floor, p50",
        "p50 against the raw floor",
    ] {
        let figure = figures.iter().find(|figure| figure["figure"] == name);
        assert!(figure.unwrap()["value"].as_f64().unwrap() > 0.0);
    }
    let left = "select count(*) from pg_class where relname = 'bare'";
    assert_eq!(server.sql(left), "0");
}
