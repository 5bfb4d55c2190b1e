//! `leasehold once --key`: every key once, whoever asks and whoever dies.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::world::{Done, World, until};

fn once<'a>(key: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["once", "--key", key], more].concat()
}

#[testbed::test]
fn a_key_is_run_once_and_then_it_is_done() {
    let world = World::new();
    let work = "echo $LEASEHOLD_KEY $LEASEHOLD_ATTEMPT; test -n \"$LEASEHOLD_TOKEN\"";
    let first = world.run(&once("ORDER-17", &["-c", work]));
    assert_eq!(
        (first.code, &*first.stdout),
        (0, "ORDER-17 1\n"),
        "{first:?}"
    );
    for command in [&["-c", work][..], &["--", "sh", "-c", work]] {
        let again = world.run(&once("ORDER-17", command));
        assert_eq!((again.code, &*again.stdout, &*again.stderr), (0, "", ""));
    }
    let told = world.run(&["-v", "once", "--key", "ORDER-17", "--", "true"]);
    assert!(told.stderr.contains("ORDER-17 is done"), "{told:?}");
    assert_eq!(
        world.run(&once("order-17", &["--", "echo", "x"])).stdout,
        "x\n"
    );
}

#[testbed::test]
fn a_command_that_fails_is_run_again_until_it_is_given_up() {
    let world = World::new();
    let work = "echo $LEASEHOLD_ATTEMPT >> begun; test -e ready || exit 3";
    let ask = |most| world.run(&once("k", &["--max-attempts", most, "-c", work]));
    assert_eq!((ask("2").code, ask("2").code), (3, 3));
    let given_up = ask("2");
    assert_eq!(given_up.code, 65, "{given_up:?}");
    assert!(
        given_up.complaint().contains("begun 2 times"),
        "{given_up:?}"
    );
    fs::write(world.path("ready"), "").unwrap();
    assert_eq!(ask("2").code, 65);
    assert_eq!(ask("3").code, 0);
    assert_eq!(ask("2").code, 0);
    assert_eq!(world.lines("begun"), ["1", "2", "3"]);
}

#[testbed::test]
fn while_it_runs_others_are_sent_away_and_after_a_crash_they_are_not() {
    let world = World::new();
    let slow = "echo $LEASEHOLD_ATTEMPT >> begun; test $LEASEHOLD_ATTEMPT = 2 || sleep 60";
    let running = world.start(&once("k", &["-c", slow]));
    world.line("begun");
    let busy = world.run(&once("k", &["-c", slow]));
    assert_eq!(busy.code, 75, "{busy:?}");
    assert!(busy.complaint().contains("ask again in"), "{busy:?}");
    running.signal(Signal::SIGKILL);
    until("the next one has done it", || {
        let done = world.run(&once("k", &["-c", slow]));
        assert!(matches!(done.code, 0 | 75), "{done:?}");
        (done.code == 0).then_some(())
    });
    assert_eq!(world.lines("begun"), ["1", "2"]);
    assert!(world.memo("dedupe/k").ends_with("2 done\n"));
}

#[testbed::test]
fn a_command_that_is_stopped_is_not_done() {
    let world = World::new();
    let stopped = once("k", &["--max-runtime", "100ms", "--", "sleep", "60"]);
    assert_eq!(world.run(&stopped).code, 128 + 15);
    assert_eq!(world.run(&once("k", &["--", "echo", "x"])).stdout, "x\n");
}

#[testbed::test]
fn a_command_that_ends_well_when_it_is_told_to_is_not_done() {
    let world = World::new();
    let tidy = "trap 'exit 0' TERM; sleep 60 & wait";
    let stopped = once("k", &["--max-runtime", "1s", "--", "sh", "-c", tidy]);
    assert_eq!(world.run(&stopped).code, 128 + 15);
    assert_eq!(world.run(&once("k", &["--", "echo", "x"])).stdout, "x\n");
}

#[testbed::test]
fn a_command_that_survives_a_signal_and_ends_well_is_done() {
    let world = World::new();
    let works_on = "trap 'echo heard >> heard' HUP; echo begun >> begun; \
                    until test -e go; do sleep 0.05; done";
    let running = world.start(&once("k", &["--", "sh", "-c", works_on]));
    world.line("begun");
    running.signal(Signal::SIGHUP);
    world.line("heard");
    // It goes on for so long that it does not end because of that.
    std::thread::sleep(Duration::from_secs(4));
    fs::write(world.path("go"), "").unwrap();
    let done = running.done();
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(world.run(&once("k", &["--", "echo", "x"])).stdout, "");
}

#[testbed::test]
fn a_command_that_tidies_up_because_it_is_hung_up_on_is_not_done() {
    let world = World::new();
    let tidies_up = "trap 'exit 0' HUP; echo begun >> begun; while :; do sleep 0.05; done";
    let running = world.start(&once("k", &["-c", tidies_up]));
    world.line("begun");
    running.signal(Signal::SIGHUP);
    running.done();
    assert_eq!(world.run(&once("k", &["--", "echo", "x"])).stdout, "x\n");
}

#[testbed::test]
fn a_command_that_a_signal_ends_is_not_done() {
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        let world = World::new();
        let running = world.start(&once("k", &["-c", "echo begun >> begun; exec sleep 60"]));
        world.line("begun");
        running.signal(signal);
        assert_eq!(running.done().code, 128 + signal as i32);
        assert_eq!(world.run(&once("k", &["--", "echo", "x"])).stdout, "x\n");
    }
}

/// As when a whole service is told to end: the command may be gone before we see it.
#[testbed::test]
fn a_signal_that_comes_with_the_commands_end_counts() {
    let world = World::new();
    for number in 0..10 {
        let key = format!("k{number}");
        let told = "trap '' TERM; kill -TERM $PPID; exit 0";
        let done = world.run(&once(&key, &["-c", told]));
        assert_eq!(done.code, 143, "{done:?}");
        assert_eq!(world.run(&once(&key, &["--", "echo", "x"])).stdout, "x\n");
    }
}

#[testbed::test]
fn a_plain_lock_in_a_messages_place_keeps_it_waiting_and_loses_nothing() {
    let world = World::new();
    let plain = world.start(&["run", "dedupe/k", "sleep", "60"]);
    world.until_held("dedupe/k");
    world.refuses(&once("k", &["--", "echo", "x"]), 75, "ask again in");
    plain.signal(Signal::SIGTERM);
    assert_eq!(plain.done().code, 143);
    assert_eq!(world.run(&once("k", &["--", "echo", "x"])).stdout, "x\n");
}

#[testbed::test]
fn a_command_that_is_not_there_is_no_attempt() {
    let world = World::new();
    let most = ["--max-attempts", "1", "--"];
    let missing = once("k", &[&most[..], &["/nowhere"]].concat());
    assert_ne!(world.run(&missing).code, 0);
    let once_more = once("k", &[&most[..], &["echo", "x"]].concat());
    assert_eq!(world.run(&once_more).stdout, "x\n");
}

/// The system refuses arguments and variables beyond a size. A leasehold with as many
/// as are allowed has a command with too many: it adds some of its own.
#[testbed::test]
fn a_command_that_cannot_be_started_is_no_attempt() {
    const PIECE: usize = 100_000;
    let world = World::new();
    // They are in the added variables too, so that those are longer than our name.
    let [key, other] = ["k", "o"].map(|letter| letter.repeat(400));
    let ask = |key: &str, size: usize| {
        let most = ["--max-attempts", "1", "--", "echo", "x"];
        let mut command = world.leasehold(once(key, &most));
        for (number, begin) in (0..size).step_by(PIECE).enumerate() {
            let piece = "x".repeat(PIECE.min(size - begin));
            command.env(format!("FILLER_{number:03}"), piece);
        }
        command.output()
    };
    let (mut allowed, mut refused) = (0, 16 << 20);
    while refused - allowed > 8 {
        let middle = usize::midpoint(allowed, refused);
        match ask(&other, middle) {
            Ok(_) => allowed = middle,
            Err(error) if error.raw_os_error() == Some(nix::libc::E2BIG) => refused = middle,
            Err(error) => panic!("{error}"),
        }
    }
    let done = Done::from(ask(&key, allowed).unwrap());
    assert_eq!((done.code, &*done.stdout), (71, ""), "{done:?}");
    assert!(done.complaint().contains("start the command"), "{done:?}");
    assert_eq!(world.memo(&format!("dedupe/{key}")), "");
    let done = Done::from(ask(&key, 0).unwrap());
    assert_eq!((done.code, &*done.stdout), (0, "x\n"), "{done:?}");
}

#[testbed::test]
fn a_key_is_forgotten_after_its_time_and_nothing_is_left_of_it() {
    let world = World::new();
    let ask = || world.run(&once("k", &["--keep", "1s", "--", "echo", "x"]));
    assert_eq!(ask().stdout, "x\n");
    until("it is forgotten", || {
        world.memo("dedupe/k").is_empty().then_some(())
    });
    // Whoever writes next sweeps.
    assert_eq!(world.run(&once("other", &["--", "true"])).code, 0);
    let database = rusqlite::Connection::open(world.path("locks.db")).unwrap();
    for table in ["memo", "memo_end", "claim"] {
        let query = format!("select count(*) from {table} where name = 'dedupe/k'");
        let left: i64 = database.query_row(&query, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
    assert_eq!(ask().stdout, "x\n");
}

#[testbed::test]
fn bad_input_is_one_line() {
    let world = World::new();
    assert_eq!(
        world
            .run(&["once", "dedupe/used", "--slot", "1", "true"])
            .code,
        0
    );
    let long = "k".repeat(501);
    for (arguments, says) in [
        (once("k", &[]), "no command"),
        (once("k", &["--max-attempts", "0", "--", "true"]), "0"),
        (once("k", &["--keep", "0s", "--", "true"]), "more than zero"),
        (once("k", &["--keep", "1ms", "--", "true"]), "from a second"),
        (once("k", &["--per", "1h", "--", "true"]), "--per"),
        (once("k", &["--missed", "all", "--", "true"]), "--missed"),
        (once("", &["--", "true"]), "0 bytes"),
        (once(&long, &["--", "true"]), "501 bytes"),
        (once("used", &["--", "true"]), "choose another key"),
        (
            vec!["once", "x", "--slot", "1", "--keep", "1d", "true"],
            "--key",
        ),
        (vec!["once", "x", "--slot", "1"], "no command"),
        (vec!["once", "--slot", "1", "-c", "true"], "NAME"),
        (
            vec!["once", "x", "--slot", "1", "-c", "true", "true"],
            "is a -- missing",
        ),
    ] {
        let done = world.run(&arguments);
        assert_eq!(done.code, 64, "{arguments:?} {done:?}");
        assert!(done.complaint().contains(says), "{arguments:?} {done:?}");
    }
}
