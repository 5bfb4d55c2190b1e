//! The life and death of the command: signals, groups, and our own end.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::world::{Running, World, is_alive, until, until_dead};

/// A command with a child of its own; both say that they got a signal. Should
/// a test fail, they end by themselves.
const FAMILY: &str = "
    run() { i=0; while test $((i=i+1)) -lt 3000; do sleep 0.02; done; }
    (trap 'echo inner >> heard; exit' USR1 TERM; echo $(exec sh -c 'echo $PPID') > inner; run) &
    trap 'echo outer >> heard; wait; exit 5' USR1 TERM
    echo $$ > outer
    run";

#[testbed::test]
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

#[testbed::test]
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

/// They have numbers but no names.
#[testbed::test]
fn a_command_that_a_real_time_signal_ends_frees_the_lock() {
    let world = World::new();
    let running = world.start(&["run", "x", "sh", "-c", "kill -40 $$"]);
    assert_eq!(running.done().code, 128 + 40);
    world.until_claims("x", 0, 0);
}

#[testbed::test]
fn signals_that_our_parent_blocks_reach_us_all_the_same() {
    let world = World::new();
    // The standard library would clear the mask of what it starts.
    let block = "use POSIX; my $all = POSIX::SigSet->new; $all->fillset;
        sigprocmask(SIG_BLOCK, $all); exec @ARGV";
    let mut perl = std::process::Command::new("perl");
    perl.args(["-e", block, env!("CARGO_BIN_EXE_leasehold"), "run", "x"])
        .args(["sh", "-c", "echo $$ > pid; exec sleep 60"])
        .env("LEASEHOLD_URL", world.url())
        .current_dir(world.path(""));
    let running = Running::of(&mut perl);
    let pid = world.pid("pid");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.done().code, 128 + Signal::SIGTERM as i32);
    until_dead(pid);
}

#[testbed::test]
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

#[testbed::test]
fn the_keeper_has_the_sessions_lifeline() {
    let world = World::new();
    let running = world.start(&["run", "x", "sleep", "60"]);
    let lifeline = std::fs::read_link(format!("/proc/{}/fd/1", keeper(&running))).unwrap();
    assert!(
        lifeline.starts_with(world.path("locks.db.d")),
        "{lifeline:?}"
    );
}

#[testbed::test]
fn a_keeper_does_its_work_whatever_signals_it_gets() {
    let world = World::new();
    let running = world.start(&["run", "--ttl", "1h", "x", "sh", "-c", FAMILY]);
    let (outer, inner) = (world.pid("outer"), world.pid("inner"));
    let keeper = keeper(&running);
    // Stopped, it also gets SIGHUP from the kernel when its parent dies.
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGSTOP,
    ] {
        kill(keeper, signal).unwrap();
    }
    until("the keeper to stop", || {
        let stat = std::fs::read_to_string(format!("/proc/{keeper}/stat")).unwrap();
        stat.contains(") T ").then_some(())
    });
    running.signal(Signal::SIGKILL);
    until_dead(outer);
    until_dead(inner);
    assert_eq!(world.run(&["run", "-w", "20s", "x", "true"]).code, 0);
}

#[testbed::test]
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

#[testbed::test]
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

#[testbed::test]
fn the_command_dies_with_leasehold_also_without_a_keeper() {
    let world = World::new();
    let running = world.start(&["run", "--ttl", "1h", "x", "sh", "-c", FAMILY]);
    let (outer, inner) = (world.pid("outer"), world.pid("inner"));
    kill(keeper(&running), Signal::SIGKILL).unwrap();
    running.signal(Signal::SIGKILL);
    until_dead(outer);
    kill(inner, Signal::SIGKILL).unwrap();
}

#[testbed::test]
fn no_helper_is_left_when_the_command_has_ended() {
    let world = World::new();
    let script = "echo > begun; until test -e go; do sleep 0.02; done";
    let running = world.start(&["run", "x", "sh", "-c", script]);
    world.line("begun");
    let keeper = keeper(&running);
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(running.done().code, 0);
    assert!(kill(keeper, None).is_err(), "not even a zombie is left");
}

/// The process that watches over the command's children.
fn keeper(running: &Running) -> Pid {
    let parent = running.pid().to_string();
    until("a keeper", || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut stats = processes
            .filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
        stats.find_map(|stat| {
            let (pid, rest) = stat.split_once(" (lock-keeper) ")?;
            let is_ours = rest.split_whitespace().nth(1) == Some(&parent);
            is_ours.then(|| Pid::from_raw(pid.parse().unwrap()))
        })
    })
}

#[testbed::test]
fn the_command_has_a_group_of_its_own() {
    let world = World::new();
    let script = "echo $$; cut -d ' ' -f 5 /proc/$$/stat; cut -d ' ' -f 5 /proc/$PPID/stat";
    let done = world.run(&["run", "x", "sh", "-c", script]);
    let numbers: Vec<_> = done.stdout.lines().collect();
    assert_eq!(numbers[0], numbers[1], "{done:?}");
    assert_ne!(numbers[1], numbers[2], "{done:?}");
}

#[testbed::test(timed)]
fn a_command_that_is_stopped_by_hand_keeps_the_lock() {
    let world = World::new();
    let running = world.start(&[
        "run",
        "--ttl",
        "4s",
        "x",
        "sh",
        "-c",
        "echo $$ > pid; until test -e go; do sleep 0.05; done; exit 3",
    ]);
    let pid = world.pid("pid");
    kill(pid, Signal::SIGSTOP).unwrap();
    let first = world.show("x")["holders"][0]["age_ms"].as_u64().unwrap();
    until("several ttls to pass", || {
        let shown = world.show("x");
        let age = shown["holders"][0]["age_ms"]
            .as_u64()
            .expect("the lock is held");
        (age > first + 10_000).then_some(())
    });
    std::fs::write(world.path("go"), "").unwrap();
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!(running.done().code, 3);
}
