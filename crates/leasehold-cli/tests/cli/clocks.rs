//! Processes whose wall clocks are an hour off agree with the others: on a file, and
//! on a server.

use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::world::{Done, Running, World};

const OFFSETS: [&str; 3] = ["+1h", "-1h", "+0s"];
const SELF: &str = env!("CARGO_BIN_EXE_leasehold");

/// Shows processes another time.
pub(crate) struct Clocks {
    library: PathBuf,
}

impl Clocks {
    /// Skips the test where the library is not there.
    pub(crate) fn find() -> Self {
        let folders = std::fs::read_dir("/usr/lib")
            .into_iter()
            .flatten()
            .flatten();
        let library = folders
            .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
            .find(|library| library.exists());
        testbed::need(library.is_none().then_some("libfaketime"));
        let library = library.expect("it is there");
        Self { library }
    }

    /// Sets the wall clock of the command.
    pub(crate) fn set<'a>(&self, command: &'a mut Command, offset: &str) -> &'a mut Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME", offset)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }
}

/// A store whose users have different clocks.
struct Elsewhere<'a> {
    clocks: &'a Clocks,
    world: World,
}

impl Elsewhere<'_> {
    fn run(&self, offset: &str, arguments: &[&str]) -> Done {
        Done::of(
            self.clocks
                .set(&mut self.world.leasehold(arguments), offset),
        )
    }

    fn start(&self, offset: &str, arguments: &[&str]) -> Running {
        Running::of(
            self.clocks
                .set(&mut self.world.leasehold(arguments), offset),
        )
    }
}

/// On a file, and on a server.
fn on_each_store(check: fn(&Elsewhere)) {
    let clocks = &Clocks::find();
    let world = World::new();
    check(&Elsewhere { clocks, world });
    #[cfg(feature = "redis")]
    {
        let server = crate::redis_server::Server::start();
        let world = server.world();
        check(&Elsewhere { clocks, world });
    }
}

#[testbed::test]
fn the_clock_is_really_off() {
    let clocks = Clocks::find();
    let seconds = |offset| {
        let mut command = Command::new("date");
        let done = Done::of(clocks.set(command.arg("+%s"), offset));
        done.stdout.trim().parse::<i64>().unwrap()
    };
    let (behind, ahead) = (seconds("-1h"), seconds("+1h"));
    assert!(ahead - behind >= 7200, "{behind} and {ahead}");
}

#[testbed::test]
fn a_message_is_done_once_whatever_the_clocks_say() {
    on_each_store(|elsewhere| {
        for doer in OFFSETS {
            for asker in OFFSETS {
                let key = format!("from {doer} to {asker}");
                // Kept for less than the clocks are off.
                let ask = ["once", "--key", &key, "--keep", "30m", "-c"];
                let work = [&ask[..], &["echo x"]].concat();
                let done = elsewhere.run(doer, &work);
                assert_eq!((done.code, &*done.stdout), (0, "x\n"), "{key}: {done:?}");
                let done = elsewhere.run(asker, &work);
                assert_eq!((done.code, &*done.stdout), (0, ""), "{key}: {done:?}");
            }
        }
        for doer in OFFSETS {
            let (begun, key) = (format!("begun at {doer}"), format!("of {doer}"));
            let long = format!("echo > '{begun}'; sleep 60");
            let _doing = elsewhere.start(doer, &["once", "--key", &key, "-c", &long]);
            elsewhere.world.line(&begun);
            for asker in OFFSETS {
                let done = elsewhere.run(asker, &["once", "--key", &key, "--", "echo", "x"]);
                assert_eq!((done.code, &*done.stdout), (75, ""), "{asker}: {done:?}");
            }
        }
    });
}

#[testbed::test]
fn a_latch_opens_when_all_have_counted() {
    on_each_store(|elsewhere| {
        let latch = ["latch", "x", "--count", "3"];
        let wait = [&latch[..], &["--wait"]].concat();
        let waiting = OFFSETS.map(|offset| elsewhere.start(offset, &wait));
        for (offset, left) in OFFSETS.into_iter().zip(["2\n", "1\n", "0\n"]) {
            // Asked for again it is not counted again.
            for _ in 0..2 {
                let part = format!("of {offset}");
                let count = [&latch[..], &["--part", &part]].concat();
                let done = elsewhere.run(offset, &count);
                assert_eq!((done.code, &*done.stdout), (0, left), "{done:?}");
            }
        }
        for running in waiting {
            let done = running.done();
            assert_eq!(done.code, 0, "{done:?}");
        }
    });
}

#[testbed::test]
fn members_of_a_barrier_begin_and_end_together() {
    on_each_store(|elsewhere| {
        for round in ["1", "2"] {
            let together = format!(
                "echo >> begun{round}; until test $(wc -l < begun{round}) = 3; do sleep 0.02; done"
            );
            let barrier = ["barrier", "x", "--members", "3", "-c", &together];
            let members = OFFSETS.map(|offset| elsewhere.start(offset, &barrier));
            for running in members {
                let done = running.done();
                assert_eq!(done.code, 0, "{done:?}");
            }
        }
    });
}

#[testbed::test]
fn a_member_of_a_barrier_that_is_killed_is_not_waited_for_for_an_hour() {
    on_each_store(|elsewhere| {
        for (dead, other) in [("+1h", "-1h"), ("-1h", "+1h")] {
            let begun = format!("begun at {dead}");
            let long = format!("echo > '{begun}'; sleep 60");
            let barrier = |ttl, command| {
                [
                    "barrier",
                    "x",
                    "--ttl",
                    ttl,
                    "--members",
                    "2",
                    "-c",
                    command,
                ]
            };
            let killed = elsewhere.start(dead, &barrier("4s", &long));
            let waiting = elsewhere.start(other, &barrier("60s", "true"));
            elsewhere.world.line(&begun);
            killed.signal(Signal::SIGKILL);
            let done = waiting.done();
            assert_eq!(done.code, 0, "{done:?}");
        }
    });
}

#[testbed::test]
fn a_stamp_is_spoilt_by_a_writer_and_by_nothing_else() {
    on_each_store(|elsewhere| {
        for reader in OFFSETS {
            let read =
                |command: &str| elsewhere.run(reader, &["stamp", "x", "--", "sh", "-c", command]);
            let alone = read("exit 3");
            assert_eq!(alone.code, 3, "{reader}: {alone:?}");
            for writer in OFFSETS {
                let written = read(&format!("FAKETIME={writer} {SELF} run --exclusive x true"));
                assert_eq!(written.code, 75, "{reader} {writer}: {written:?}");
            }
        }
    });
}

#[testbed::test]
fn a_word_is_good_for_a_process_with_another_clock() {
    let clocks = &Clocks::find();
    let world = World::new();
    let elsewhere = Elsewhere { clocks, world };
    for maker in OFFSETS {
        let stamped = elsewhere.run(maker, &["stamp", "x"]);
        let word = stamped.stdout.trim_end();
        let validate = |offset| {
            elsewhere
                .run(offset, &["stamp", "x", "--validate", word])
                .code
        };
        assert_eq!(OFFSETS.map(validate), [0, 0, 0], "{stamped:?}");
        let written = elsewhere.run("-1h", &["run", "--exclusive", "x", "true"]);
        assert_eq!(written.code, 0, "{written:?}");
        assert_eq!(OFFSETS.map(validate), [1, 1, 1], "{stamped:?}");
    }
}
