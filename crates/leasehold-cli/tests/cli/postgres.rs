//! Every command on PostgreSQL, as on any other store.

use tempfile::TempDir;
use testbed::postgres::Postgres;

use crate::world::{Done, World, bare};

pub(crate) fn postgres(settings: &[&str]) -> (TempDir, Postgres) {
    let folder = TempDir::new().unwrap();
    let server = Postgres::start(folder.path(), settings);
    (folder, server)
}

#[testbed::test]
fn doctor_says_what_is_weak() {
    let (_folder, server) = postgres(&["synchronous_commit=off"]);
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

#[testbed::test]
fn bad_input_is_one_clear_line() {
    let (_folder, server) = postgres(&[]);
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
