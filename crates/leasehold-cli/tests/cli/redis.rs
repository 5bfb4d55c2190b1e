//! Every command on a Redis server, as on any other store.

use std::fs;

use serde_json::Value;

use crate::redis_server::Server;
use crate::world::{Done, bare};

#[testbed::test]
fn processes_never_count_at_the_same_time() {
    let server = Server::start();
    let world = server.world();
    fs::write(world.path("count"), "0").unwrap();
    let add = "n=$(cat count); sleep 0.01; echo $((n + 1)) > count";
    let adding: Vec<_> = (0..12)
        .map(|_| world.start(&["run", "x", "-c", add]))
        .collect();
    for process in adding {
        let done = process.done();
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_eq!(world.line("count"), "12");
}

#[testbed::test]
fn doctor_tells_a_server_that_may_drop_locks_from_a_sound_one() {
    let server = Server::start();
    let report = server.world().run(&["doctor", "--json"]);
    assert_eq!(report.code, 0, "{report:?}");
    assert_eq!(report.json()["store"], server.url());
    let dangerous = ["maxmemory 100mb", "maxmemory-policy allkeys-lru"];
    let server = Server::with(&dangerous);
    let report = server.world().run(&["doctor"]);
    assert_eq!(report.code, 78, "{report:?}");
    assert!(report.stdout.contains("allkeys-lru"), "{report:?}");
}

#[testbed::test]
fn a_password_is_told_to_nobody() {
    let secret = format!("canary{}", std::process::id());
    let server = Server::with(&[&format!("requirepass {secret}")]);
    let world = crate::world::World::on(server.url_with(&secret));
    // Arguments of all processes, and what the command gets beside the URL.
    let look = format!(
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[c]{rest}'; \
         env | grep -v '^LEASEHOLD_URL=' | grep -c '[c]{rest}'",
        rest = &secret[1..]
    );
    let done = world.run(&["run", "x", "sh", "-c", &look]);
    assert_eq!(done.stdout, "0\n0\n", "{done:?}");
    for arguments in [
        &["run", "-v", "x", "true"][..],
        &["run", "--json", "x", "true"],
        &["ls"],
        &["doctor"],
        &["doctor", "--json"],
        &[
            "bench",
            "--url",
            &server.url(),
            "--only",
            "one task",
            "--for",
            "50ms",
        ],
    ] {
        let done = world.run(arguments);
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
        assert!(
            !format!("{done:?}").contains(&secret),
            "{arguments:?}: {done:?}"
        );
    }
}

#[testbed::test]
fn a_wrong_password_is_access_denied() {
    let server = Server::with(&["requirepass right"]);
    for url in [
        server.url(),
        server.url_with("wrongcanary"),
        server.url().replace("//", "//nobody:wrongcanary@"),
    ] {
        for arguments in [
            &["run", "x", "true"][..],
            &["ls"],
            &["doctor"],
            &["hold", "x"],
        ] {
            let done = Done::of(bare(arguments).env("LEASEHOLD_URL", &url));
            assert_eq!(done.code, 77, "{done:?}");
            assert!(done.complaint().contains("password"), "{done:?}");
            assert!(!done.stderr.contains("wrongcanary"), "{done:?}");
        }
        let done = Done::of(&mut bare(["bench", "--url", &url]));
        assert_eq!(done.code, 77, "{done:?}");
        assert!(!done.complaint().contains("wrongcanary"), "{done:?}");
    }
}

#[testbed::test]
fn a_benchmark_measures_ours_and_the_bare_client() {
    let server = Server::start();
    let url = server.url();
    let measure = |only: &str| -> Vec<Value> {
        let arguments = [
            "bench", "--json", "--url", &url, "--for", "90ms", "--only", only,
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
    assert!(value(&figures, "lock + unlock, p50") > 0.0);
    assert!(value(&figures, "raw floor, p50") > 0.0);
    assert!(value(&figures, "p50 against the raw floor") > 0.0);
    let figures = measure("64 tasks, 64 names");
    assert!(value(&figures, "speed against the raw floor") > 0.0);
    let figures = measure("16 sessions");
    assert!(value(&figures, "speed against BLPOP") > 0.0);
    let figures = measure("10 sessions wait");
    // A session that was not served for long looks by itself: seldom.
    let requests = value(&figures, "EVALSHA per hand-over");
    assert!((2.0..2.5).contains(&requests), "{figures:?}");
}

#[testbed::test]
fn a_layout_without_a_queue_cannot_tell_deadlocks_and_says_so() {
    let server = Server::start();
    let url = format!("{}?layout=plain", server.world().url());
    let done = Done::of(&mut bare(["doctor", "--deadlocks", "--url", &url]));
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.complaint().contains("keeps no queue"), "{done:?}");
}
