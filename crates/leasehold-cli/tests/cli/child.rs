//! The life and death of the command: signals, groups, and our own end.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::world::{World, is_alive, until, until_dead};

/// A command with a child of its own; both say that they got a signal.
const FAMILY: &str = "
    (trap 'echo inner >> heard; exit' USR1 TERM; echo $(exec sh -c 'echo $PPID') > inner;
     while :; do sleep 0.02; done) &
    trap 'echo outer >> heard; wait; exit 5' USR1 TERM
    echo $$ > outer
    while :; do sleep 0.02; done";

#[test]
fn a_signal_reaches_the_command_and_its_children() {
    for signal in [Signal::SIGTERM, Signal::SIGUSR1] {
        let world = World::new();
        let running = world.start(&["run", "x", "sh", "-c", FAMILY]);
        let (outer, inner) = (world.pid("outer"), world.pid("inner"));
        running.signal(signal);
        assert_eq!(running.done().code, 5);
        until_dead(inner);
        until_dead(outer);
        let heard = std::fs::read_to_string(world.path("heard")).unwrap();
        assert!(
            heard.contains("inner") && heard.contains("outer"),
            "{heard}"
        );
        world.until_claims("x", 0, 0);
    }
}

#[test]
fn a_signal_that_our_parent_ignores_stays_ignored() {
    let world = World::new();
    let script = format!(
        "trap '' HUP; exec {} run x sh -c 'echo $$ > pid; kill -HUP $PPID $$; echo alive'",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &script])
        .env("LEASEHOLD_URL", world.url())
        .current_dir(world.path(""));
    let done = crate::world::Done::of(&mut shell);
    assert_eq!((done.code, done.stdout.trim()), (0, "alive"), "{done:?}");
}

#[test]
fn killing_leasehold_kills_the_command_and_its_children_before_the_lock_is_free() {
    let world = World::new();
    let running = world.start(&["run", "--ttl", "1h", "x", "sh", "-c", FAMILY]);
    let (outer, inner) = (world.pid("outer"), world.pid("inner"));
    let check = format!("kill -0 {outer} 2>/dev/null || kill -0 {inner} 2>/dev/null; echo $?");
    // Zombies count as alive for kill -0, so the next holder looks at states.
    let check = format!(
        "for pid in {outer} {inner}; do grep -s State: /proc/$pid/status; done | grep -v Z; {check}"
    );
    let next = world.start(&["run", "x", "sh", "-c", &check]);
    world.until_claims("x", 1, 1);
    running.signal(Signal::SIGKILL);
    let done = next.done();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        !done.stdout.contains("State:"),
        "somebody was alive: {done:?}"
    );
    assert!(!is_alive(outer) && !is_alive(inner));
}

#[test]
fn killing_leasehold_kills_a_stopped_command_too() {
    let world = World::new();
    let running = world.start(&["run", "--ttl", "1h", "x", "sh", "-c", FAMILY]);
    let (outer, inner) = (world.pid("outer"), world.pid("inner"));
    kill(outer, Signal::SIGSTOP).unwrap();
    running.signal(Signal::SIGKILL);
    until_dead(outer);
    until_dead(inner);
    world.until_claims("x", 0, 0);
}

#[test]
fn what_the_command_leaves_in_the_background_lives_on_without_the_lock() {
    let world = World::new();
    let done = world.run(&[
        "run",
        "x",
        "sh",
        "-c",
        "sleep 60 >/dev/null 2>&1 & echo $! > left",
    ]);
    assert_eq!(done.code, 0);
    let left = world.pid("left");
    world.until_claims("x", 0, 0);
    assert!(is_alive(left));
    kill(left, Signal::SIGKILL).unwrap();
}

#[test]
fn no_helper_is_left_when_the_command_has_ended() {
    let world = World::new();
    let script = "for stat in /proc/[0-9]*/stat; do
        read -r pid name state parent rest < $stat && test $parent = $PPID && echo $pid $name
        done 2>/dev/null";
    let done = world.run(&["run", "x", "sh", "-c", script]);
    let keeper = done
        .stdout
        .lines()
        .find_map(|line| line.strip_suffix(" (lock-keeper)"));
    let keeper = keeper.unwrap_or_else(|| panic!("no keeper: {done:?}"));
    until_dead(Pid::from_raw(keeper.parse().unwrap()));
}

#[test]
fn the_command_has_a_group_of_its_own() {
    let world = World::new();
    let script = "echo $$; cut -d ' ' -f 5 /proc/$$/stat; cut -d ' ' -f 5 /proc/$PPID/stat";
    let done = world.run(&["run", "x", "sh", "-c", script]);
    let numbers: Vec<_> = done.stdout.lines().collect();
    assert_eq!(numbers[0], numbers[1], "{done:?}");
    assert_ne!(numbers[1], numbers[2], "{done:?}");
}

#[test]
fn a_command_that_is_stopped_by_hand_keeps_the_lock() {
    let world = World::new();
    let running = world.start(&[
        "run",
        "--ttl",
        "400ms",
        "x",
        "sh",
        "-c",
        "echo $$ > pid; sleep 0.1; exit 3",
    ]);
    let pid = world.pid("pid");
    kill(pid, Signal::SIGSTOP).unwrap();
    let first = world.show("x")["holders"][0]["age_ms"].as_u64().unwrap();
    until("several ttls to pass", || {
        let shown = world.show("x");
        let age = shown["holders"][0]["age_ms"]
            .as_u64()
            .expect("the lock is held");
        (age > first + 1500).then_some(())
    });
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(running.done().code, 3);
}
