//! Every command on MariaDB, as on any other store.

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::mysql_server::{Mysql, lacks_mysql, must_skip};
use crate::world::{Done, Running, World, bare, until};

pub(crate) fn mysql(settings: &[&str]) -> Option<(TempDir, Mysql)> {
    if must_skip(lacks_mysql()) {
        return None;
    }
    let folder = TempDir::new().unwrap();
    let server = Mysql::start(folder.path(), settings);
    Some((folder, server))
}

#[test]
fn a_command_gets_its_lock_and_a_greater_token_each_time() {
    let Some((_folder, server)) = mysql(&[]) else {
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
    let claims = "select count(*) from leasehold_claim where ticket is not null";
    assert_eq!(server.sql(claims), "0");
    assert_eq!(server.sql("select count(*) from leasehold_session"), "0");
}

#[test]
fn a_lock_is_seen_refused_and_broken() {
    let Some((_folder, server)) = mysql(&[]) else {
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
    let Some((_folder, server)) = mysql(&[]) else {
        return;
    };
    server.sql("create user app@'127.0.0.1'; grant select on shop.* to app@'127.0.0.1'");
    let world = World::on(format!("{}?schema=my%20locks", server.url_as("app")));
    let done = world.run(&["run", "x", "true"]);
    assert_eq!(done.code, 77, "{done:?}");
    assert!(done.complaint().contains("leasehold schema"), "{done:?}");
    let done = world.run(&["schema"]);
    assert_eq!(done.code, 0, "{done:?}");
    server.sql(&done.stdout);
    server.sql("grant select, insert, update, delete on shop.* to app@'127.0.0.1'");
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    let done = Done::of(&mut bare(["--url", "sqlite:x.db", "schema"]));
    assert_eq!(done.code, 78, "{done:?}");
}

#[test]
fn doctor_says_what_is_weak() {
    let Some((_folder, server)) = mysql(&[]) else {
        return;
    };
    let world = World::on(server.url());
    let done = world.run(&["doctor"]);
    for part in ["MariaDB", "innodb_flush_log_at_trx_commit is 2"] {
        assert!(done.stdout.contains(part), "{part}: {done:?}");
    }
}

#[test]
fn bad_input_is_one_clear_line() {
    let Some((_folder, server)) = mysql(&[]) else {
        return;
    };
    let missing = format!("mysql://root@127.0.0.1:{}/nowhere", server.port);
    let url = |url: &str| Done::of(&mut bare(["--url", url, "run", "x", "true"]));
    for (place, code, part) in [
        ("mysql:", 78, "names no server"),
        ("mysql://a:b/c", 78, "port"),
        ("mysql://a,b/c", 78, "one host"),
        ("mysql://a", 78, "no database"),
        ("mysql://a/c?schema=", 78, "1 to 48 bytes"),
        ("mysql://a/c?ssl-cert=x.pem", 78, "go together"),
        ("mysql://a/c?ssl-mode=of", 78, "ssl-mode"),
        ("mysql://u:hunter2@127.0.0.1:1/c", 69, "refused"),
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
    let Some((_folder, server)) = mysql(&[]) else {
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
    let left = "select count(*) from information_schema.tables where table_name = 'leasehold_bare'";
    assert_eq!(server.sql(left), "0");
}
