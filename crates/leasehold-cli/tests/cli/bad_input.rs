//! Wrong arguments and stores that are none: one line that names the thing and
//! the remedy, the right code, and no secret.

use crate::world::{Done, World, bare};

fn refused(world: &World, arguments: &[&str], code: i32, says: &str) {
    world.refuses(arguments, code, says);
}

#[testbed::test]
fn names_that_are_not_allowed_are_usage_errors() {
    let world = World::new();
    let long = "x".repeat(513);
    for command in ["run", "hold", "show"] {
        let run = |name: &'static str| match command {
            "run" => vec!["run", name, "true"],
            command => vec![command, name],
        };
        refused(&world, &run(""), 64, "the name is empty");
        refused(&world, &run("a\nb"), 64, "U+000A");
    }
    refused(&world, &["run", &long, "true"], 64, "513 bytes");
    refused(
        &world,
        &["break", "", "--reason", "x"],
        64,
        "the name is empty",
    );
}

#[testbed::test]
fn odd_names_that_are_allowed_work() {
    let world = World::new();
    for name in [
        "jobs/nightly",
        "it's 100%",
        "{x}",
        "🔒 锁",
        "a?b=c&d",
        "--",
        "-n",
    ] {
        let done = world.run(&["run", "--", name, "printenv", "LEASEHOLD_NAME"]);
        assert_eq!((done.code, done.stdout.trim_end()), (0, name), "{done:?}");
    }
}

#[testbed::test]
fn numbers_and_durations_out_of_bounds_are_usage_errors() {
    let world = World::new();
    refused(
        &world,
        &["run", "--ttl", "0", "x", "true"],
        64,
        "allowed is 100ms to 1day",
    );
    refused(
        &world,
        &["run", "--ttl", "25h", "x", "true"],
        64,
        "allowed is 100ms to 1day",
    );
    refused(
        &world,
        &["run", "--ttl", "soon", "x", "true"],
        64,
        "write 500ms, 5s or 1h30m",
    );
    refused(&world, &["run", "-w", "x", "x", "true"], 64, "--wait");
    refused(&world, &["run", "--slots", "0", "x", "true"], 64, "--slots");
    refused(
        &world,
        &["run", "--max-hold", "0", "x", "true"],
        64,
        "more than zero",
    );
    refused(
        &world,
        &["run", "-E", "256", "x", "true"],
        64,
        "--conflict-exit-code",
    );
    refused(
        &world,
        &["run", "--kill-after", "9s", "x", "true"],
        64,
        "raise --ttl",
    );
    let arguments = ["run", "--kill-after", "2s", "--max-hold", "1s", "x", "true"];
    refused(&world, &arguments, 64, "--max-hold is 1.0s");
}

#[testbed::test]
fn arguments_that_do_not_fit_are_usage_errors_with_the_nearest_right_one() {
    let world = World::new();
    refused(&world, &["doctr"], 64, "'doctor'");
    refused(&world, &["run", "--tll", "5s", "x", "true"], 64, "'--ttl'");
    refused(&world, &["run", "x"], 64, "COMMAND");
    refused(
        &world,
        &["run", "-n", "-w", "1s", "x", "true"],
        64,
        "cannot be used with",
    );
    refused(
        &world,
        &["run", "-s", "-x", "x", "true"],
        64,
        "cannot be used with",
    );
    refused(&world, &["break", "x"], 64, "--reason");
    refused(&world, &["break", "x", "--reason", " "], 64, "say why");
    refused(
        &world,
        &["run", "--report", "no/such/folder", "x", "true"],
        64,
        "create the report",
    );
}

#[testbed::test]
fn a_wrong_url_is_a_configuration_error() {
    let world = World::new();
    let url = |url, says| refused(&world, &["run", "--url", url, "x", "true"], 78, says);
    url("sqlit:x", "did you mean sqlite?");
    url("sqlite:x?tll=5s", "did you mean ttl?");
    url("sqlite:x?ttl=0", "allowed is 100ms to 1day");
    url("sqlite:", "names no file");
    url("gopher:x", "known are");
}

#[testbed::test]
fn a_store_that_is_none_is_a_configuration_error_and_stays_as_it_is() {
    let world = World::new();
    std::fs::create_dir(world.path("folder")).unwrap();
    refused(
        &world,
        &["run", "--url", "sqlite:folder", "x", "true"],
        78,
        "is a folder",
    );
    let text = "this is no database, and long enough to be sure of it\n".repeat(100);
    std::fs::write(world.path("text"), &text).unwrap();
    refused(
        &world,
        &["run", "--url", "sqlite:text", "x", "true"],
        78,
        "not a SQLite database",
    );
    assert_eq!(std::fs::read_to_string(world.path("text")).unwrap(), text);
}

#[testbed::test]
fn a_store_of_a_newer_layout_is_a_configuration_error() {
    let world = World::new();
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    let database = rusqlite::Connection::open(world.path("locks.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    for arguments in [&["run", "x", "true"][..], &["ls"], &["doctor"]] {
        refused(&world, arguments, 78, "newer");
    }
}

#[testbed::test]
fn no_secret_is_printed() {
    let canary = "hunter2canary";
    for url in [
        format!("redis://user:{canary}@127.0.0.1:1/0"),
        format!("postgres://user:{canary}@127.0.0.1:1/db?sslmode=x"),
        format!("sqlite:/sys/x?password={canary}"),
        format!("sqlite:/sys/x?ttl={canary}@"),
        canary.to_owned(),
    ] {
        for arguments in [
            &["run", "x", "true"][..],
            &["ls"],
            &["doctor"],
            &["--json", "run", "x", "true"],
        ] {
            let done = Done::of(bare(arguments).env("LEASEHOLD_URL", &url));
            let told = format!("{}{}", done.stdout, done.stderr);
            // The value of an option that everybody has is no secret.
            let is_harmless = url.contains("ttl=");
            assert!(is_harmless || !told.contains(canary), "{url}: {told}");
            assert_ne!(done.code, 0);
        }
    }
}

#[testbed::test]
fn the_url_of_the_store_is_in_no_argument_of_a_process() {
    let world = World::new();
    let url = format!("{}?label=canary{}", world.url(), std::process::id());
    let canary = format!("canary{}", std::process::id());
    let show = format!(
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[c]{}'",
        &canary[1..]
    );
    let done = Done::of(
        world
            .leasehold(["run", "x", "sh", "-c", &show])
            .env("LEASEHOLD_URL", url),
    );
    assert_eq!(done.stdout.trim(), "0", "{done:?}");
}

#[testbed::test]
fn a_reader_that_has_seen_enough_ends_us_silently() {
    let world = World::new();
    let script = format!("{} man | head -c 1; echo", env!("CARGO_BIN_EXE_leasehold"));
    let done = Done::of(
        std::process::Command::new("sh")
            .args(["-c", &script])
            .env("LEASEHOLD_URL", world.url()),
    );
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
}
