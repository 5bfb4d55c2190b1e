//! `leasehold once`: every slot once, whoever asks and whoever dies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::world::{World, until, until_dead};

/// One effect, and a line before it, so that a run that was cut off shows.
const WORK: &str = "echo $LEASEHOLD_SLOT $LEASEHOLD_ATTEMPT >> begun
sleep 0.01
echo $LEASEHOLD_SLOT >> effects";
/// The same, but the first run of some slots kills the leasehold around it:
/// of every third slot before the effect, of every fifth after it.
const DEADLY_WORK: &str = "echo $LEASEHOLD_SLOT $LEASEHOLD_ATTEMPT >> begun
is_first() { test $(grep -c \"^$LEASEHOLD_SLOT \" begun) = 1; }
is_first && test $((LEASEHOLD_SLOT % 3)) = 0 && kill -KILL $PPID && sleep 1000
echo $LEASEHOLD_SLOT >> effects
is_first && test $((LEASEHOLD_SLOT % 5)) = 0 && kill -KILL $PPID && sleep 1000
exit 0";

/// How many slots there are; more take longer.
fn slots() -> u64 {
    let asked = std::env::var("LEASEHOLD_TEST_SLOTS").ok();
    asked.map_or(25, |slots| slots.parse().unwrap())
}

fn counts(lines: Vec<String>) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line.parse().unwrap()).or_default() += 1;
    }
    counts
}

/// Asks for slots in turn, in strides, like one who is not there all the time; with
/// few slots for every one. Some of the asking are killed at any moment, by numbers
/// that differ from worker to worker.
fn worker(world: &World, number: u64, slots: u64, on_crash: &str, work: &str) {
    let (mut random, is_deadly) = (number * 7919 + 17, work == DEADLY_WORK);
    let (mut slot, longest) = (0, (slots / 50).max(1));
    while slot < slots {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        slot = slots.min(slot + 1 + (random >> 50) % longest);
        let_others_catch_up(world, slot, 2 * longest.max(4));
        let running = world.start(&asking(&slot.to_string(), on_crash, work));
        if is_deadly && (random >> 33).is_multiple_of(4) {
            std::thread::sleep(Duration::from_millis((random >> 40) % 200));
            running.signal(Signal::SIGKILL);
            continue;
        }
        let done = running.done();
        // A worker that was overtaken is late.
        let is_fine = matches!(done.code, 0 | 75) || (is_deadly && done.code == -1);
        assert!(is_fine, "{done:?}");
    }
}

/// Nobody is ahead of the others by much, but goes on also if nobody does anything.
/// Without it whoever finds that a slot is run elsewhere would rush through all of
/// them, and leave the rest to one alone.
fn let_others_catch_up(world: &World, slot: u64, ahead: u64) {
    for _ in 0..10 {
        let begun = world.lines("begun");
        let last = begun.last().and_then(|line| line.split_once(' '));
        let last: u64 = last.map_or(0, |(last, _)| last.parse().unwrap());
        if last + ahead >= slot {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn asking<'a>(slot: &'a str, on_crash: &'a str, work: &'a str) -> [&'a str; 10] {
    [
        "once",
        "job",
        "--slot",
        slot,
        "--missed",
        "all",
        "--on-crash",
        on_crash,
        "-c",
        work,
    ]
}

fn ten_workers(world: &World, slots: u64, on_crash: &str, work: &str) {
    // Whoever asks first begins the count. It kills nobody.
    let first = world.run(&asking("1", on_crash, work));
    assert_eq!(first.code, 0, "{first:?}");
    std::thread::scope(|scope| {
        for number in 0..10 {
            scope.spawn(move || worker(world, number, slots, on_crash, work));
        }
    });
    // Whatever was cut off at the end.
    let last = slots.to_string();
    until("the last slot", || {
        let done = world.run(&asking(&last, on_crash, work));
        assert!(matches!(done.code, 0 | -1), "{done:?}");
        let state = world.memo("job");
        state.contains(&format!("\n{last} ")).then_some(())?;
        state.ends_with("done\n").then_some(())
    });
}

#[testbed::test]
fn ten_processes_run_every_slot_exactly_once() {
    let slots = slots();
    let world = World::new();
    ten_workers(&world, slots, "retry", WORK);
    let effects = counts(world.lines("effects"));
    let expected: BTreeMap<_, _> = (1..=slots).map(|slot| (slot, 1)).collect();
    assert_eq!(effects, expected);
    assert_eq!(world.lines("begun").len() as u64, slots);
}

#[testbed::test]
fn ten_processes_that_are_killed_run_every_slot_and_each_attempt_once() {
    let slots = slots();
    let world = World::new();
    ten_workers(&world, slots, "retry", DEADLY_WORK);
    let effects = counts(world.lines("effects"));
    let run: Vec<_> = effects.keys().copied().collect();
    assert_eq!(run, (1..=slots).collect::<Vec<_>>());
    let begun = world.lines("begun");
    let mut different = begun.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), begun.len(), "an attempt began twice");
    let read = |line: &String| line.split_once(' ').unwrap().0.parse::<u64>().unwrap();
    let order: Vec<_> = begun.iter().map(read).collect();
    assert!(order.is_sorted(), "{order:?}");
    let again = begun.len() as u64 - slots;
    // Every third and every fifth was cut off at least once.
    assert!(again >= slots / 3 + slots / 5 - slots / 15, "{again}");
    println!("{slots} slots, {again} attempts more because of kills");
}

#[testbed::test]
fn ten_processes_that_are_killed_never_run_a_slot_twice_if_they_give_up() {
    let slots = slots();
    let world = World::new();
    ten_workers(&world, slots, "give-up", DEADLY_WORK);
    let first = |line: String| line.split_once(' ').unwrap().0.to_owned();
    let begun = world.lines("begun").into_iter().map(first).collect();
    let twice = counts(begun).into_iter().find(|(_, count)| *count > 1);
    assert_eq!(twice, None);
    let effects = counts(world.lines("effects"));
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
    assert!(!effects.is_empty());
}

/// Clocks a little off do no harm; one far off is refused. The server's clock
/// decides.
#[cfg(feature = "redis")]
#[testbed::test]
fn clocks_that_differ_run_every_slot_once() {
    let server = crate::redis_server::Server::start();
    let clocks = crate::clocks::Clocks::find();
    let world = server.world();
    let ask = |offset: &str| {
        let mut command =
            world.leasehold(["once", "job", "--per", "1s", "--missed", "all", "-c", WORK]);
        crate::world::Done::of(clocks.set(&mut command, offset))
    };
    // An honest one comes first, else a late one would begin the count.
    let first = ask("+0s");
    assert_eq!(first.code, 0, "{first:?}");
    let (late, ahead) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (ask, world, late, ahead) = (&ask, &world, &late, &ahead);
        for offset in ["+0s", "+0.4s", "-0.4s", "+0.9s", "-0.9s", "+1h", "-1h"] {
            scope.spawn(move || {
                while counts(world.lines("effects")).len() < 8 {
                    let done = ask(offset);
                    match (done.code, offset) {
                        (0 | 75, "+0s" | "+0.4s" | "-0.4s" | "+0.9s" | "-0.9s") => {}
                        // It may also find that somebody runs a slot.
                        (0, "+1h" | "-1h") => {}
                        (75, "-1h") => _ = late.fetch_add(1, Ordering::Relaxed),
                        (78, "+1h") => _ = ahead.fetch_add(1, Ordering::Relaxed),
                        _ => panic!("{offset}: {done:?}"),
                    }
                }
            });
        }
    });
    let effects = counts(world.lines("effects"));
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
    let slots: Vec<_> = effects.keys().copied().collect();
    let whole: Vec<_> = (slots[0]..slots[0] + slots.len() as u64).collect();
    assert_eq!(slots, whole);
    assert!(late.into_inner() > 0 && ahead.into_inner() > 0);
}

#[testbed::test]
fn a_slot_that_is_done_is_no_failure_and_an_old_one_is() {
    let world = World::new();
    let ask = |slot| world.run(&["once", "job", "--slot", slot, "-c", "echo ran; exit 3"]);
    assert_eq!(ask("5").code, 3);
    let done = ask("5");
    assert_eq!((done.code, &*done.stdout, &*done.stderr), (0, "", ""));
    let old = ask("4");
    assert_eq!(old.code, 75);
    assert!(
        old.complaint().contains("slot 5 was run already"),
        "{old:?}"
    );
    let ahead = ask("9999999999");
    assert_eq!(ahead.code, 78);
    assert!(ahead.complaint().contains("too far ahead"), "{ahead:?}");
}

/// Exit code 0 means that the slot is run, by us or elsewhere, or will be.
#[testbed::test]
fn a_slot_that_is_not_run_because_an_earlier_one_runs_is_told() {
    let world = World::new();
    let running = world.start(&asking("5", "retry", "echo >> begun; exec sleep 60"));
    world.line("begun");
    let ask = |slot| ["once", "job", "--slot", slot, "--", "echo", "ran"];
    let same = world.run(&ask("5"));
    assert_eq!((same.code, &*same.stdout, &*same.stderr), (0, "", ""));
    world.refuses(&ask("6"), 75, "slot 6 of job is not run: slot 5 still runs");
    world.refuses(&ask("4"), 75, "slot 5 was run already");
    world.refuses(&ask("9999999999"), 78, "too far ahead");
    let made_up_later = world.run(&asking("6", "retry", "echo ran"));
    assert_eq!((made_up_later.code, &*made_up_later.stdout), (0, ""));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.done().code, 143);
    assert_eq!(world.run(&ask("6")).stdout, "ran\n");
}

#[testbed::test]
fn a_slot_far_in_the_future_can_be_forgotten() {
    let world = World::new();
    let ask = |slot| ["once", "job", "--slot", slot, "--", "echo", "ran"];
    assert_eq!(world.run(&ask("20261231235959")).stdout, "ran\n");
    world.refuses(&ask("20261231"), 75, "too old");
    let reset = ["once", "job", "--reset"];
    let running = world.start(&["once", "job", "--slot", "20261231235960", "-c", "sleep 60"]);
    world.until_held("job");
    world.refuses(&reset, 75, "nothing was forgotten");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.done().code, 143);
    let done = world.run(&reset);
    assert_eq!((done.code, &*done.stdout, &*done.stderr), (0, "", ""));
    assert_eq!(world.run(&ask("20261231")).stdout, "ran\n");
    assert_eq!(world.run(&["elect", "leader", "true"]).code, 0);
    world.refuses(&["once", "leader", "--reset"], 64, "choose another name");
    world.refuses(&["once", "job", "--reset", "true"], 64, "runs no command");
}

#[testbed::test]
fn a_plain_lock_of_the_name_is_told_and_nothing_is_lost() {
    let world = World::new();
    let plain = world.start(&["run", "job", "sleep", "60"]);
    world.until_held("job");
    let ask = ["once", "job", "--slot", "1", "--", "echo", "ran"];
    world.refuses(&ask, 75, "held by somebody who runs no slot of it");
    plain.signal(Signal::SIGTERM);
    assert_eq!(plain.done().code, 143);
    assert_eq!(world.run(&ask).stdout, "ran\n");
}

#[testbed::test]
fn a_run_that_is_told_to_end_is_cut_off() {
    let world = World::new();
    let told = world.start(&asking("5", "retry", "echo >> begun; sleep 60"));
    world.line("begun");
    told.signal(Signal::SIGTERM);
    assert_eq!(told.done().code, 143);
    let again = world.run(&asking("5", "retry", "echo $LEASEHOLD_ATTEMPT >> attempts"));
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(world.lines("attempts"), ["2"]);
}

#[testbed::test]
fn a_signal_at_the_end_of_a_command_leaves_its_slot_done() {
    let world = World::new();
    let command = "trap '' TERM; kill -TERM $PPID; exit 0";
    let asking_for = asking("5", "retry", command);
    let told = [&asking_for[..8], &["--at-least", "1h"], &asking_for[8..]].concat();
    // The signal comes before the command has ended or after it.
    let done = world.run(&told);
    assert!([0, 143].contains(&done.code), "{done:?}");
    let again = world.run(&asking("5", "retry", "echo >> again"));
    assert_eq!(again.code, 0, "{again:?}");
    assert!(world.lines("again").is_empty());
}

#[testbed::test]
fn a_command_that_runs_for_too_long_is_stopped_and_its_slot_is_done() {
    let world = World::new();
    let arguments = [
        "once",
        "job",
        "--slot",
        "1",
        "--max-runtime",
        "200ms",
        "--",
        "sleep",
        "1000",
    ];
    let done = world.run(&arguments);
    assert_eq!(done.code, 128 + 15, "{done:?}");
    assert!(world.memo("job").ends_with("1 1 done\n"));
}

/// It would run on beside the next slot.
#[testbed::test]
fn what_a_command_that_runs_for_too_long_leaves_behind_is_stopped_too() {
    let world = World::new();
    let deaf = "(trap '' TERM; exec sleep 60) & echo $! > deaf; wait";
    let arguments = [
        "once",
        "job",
        "--slot",
        "1",
        "--max-runtime",
        "1s",
        "-c",
        deaf,
    ];
    let done = world.run(&arguments);
    assert_eq!(done.code, 128 + 15, "{done:?}");
    assert!(world.memo("job").ends_with("1 1 done\n"));
    let pid = world.lines("deaf")[0].parse().unwrap();
    until_dead(Pid::from_raw(pid));
}

#[testbed::test]
fn a_period_and_a_cron_expression_give_slots() {
    let world = World::new();
    for (name, schedule, text) in [("a", "--per", "1day"), ("b", "--cron", "0 0 1 1 *")] {
        let ask = || {
            world.run(&[
                "once",
                name,
                schedule,
                text,
                "--",
                "printenv",
                "LEASEHOLD_SLOT",
            ])
        };
        let ran = ask();
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.trim_end().parse::<u64>().unwrap() > 10_000);
        assert_eq!(ask().stdout, "");
    }
}

#[testbed::test]
fn bad_input_is_one_line() {
    let world = World::new();
    assert_eq!(world.run(&["once", "used", "--slot", "1", "true"]).code, 0);
    for (arguments, says) in [
        (&["once", "x", "true"][..], "--per"),
        (&["once", "x", "--per", "0s", "true"], "more than zero"),
        (
            &["once", "x", "--cron", "nightly", "true"],
            "cannot be read",
        ),
        (
            &["once", "x", "--cron", "0 0 30 2 *", "true"],
            "never fires",
        ),
        (&["once", "x", "--slot", "-1", "true"], "-1"),
        (
            &["once", "used", "--per", "1h", "true"],
            "choose another name",
        ),
    ] {
        let done = world.run(arguments);
        assert_eq!(done.code, 64, "{arguments:?} {done:?}");
        assert!(done.complaint().contains(says), "{arguments:?} {done:?}");
    }
}
