//! A gate that dies, again and again.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::sys::signal::Signal;

use super::{Gate, Upstream};
use crate::world::{World, until};

/// Kills, over all gates.
const GATES: u64 = 4;

#[testbed::test]
fn after_a_restart_the_mark_is_there_and_nobody_passes_at_once() {
    let (world, upstream) = (World::new(), Upstream::start());
    let options = ["--drain-max", "1h", "--patience", "300ms"];
    let mut gate = Gate::start(&world, &upstream, &options);
    assert_eq!(gate.ask("/r/1", 7).status, 200);
    gate.running.child().kill().unwrap();
    gate.running.child().wait().unwrap();
    let gate = Gate::start(&world, &upstream, &options);
    assert_eq!(gate.ask("/r/1", 6).status, 409);
    for token in [7, 8] {
        assert_eq!(gate.ask("/r/1", token).status, 503, "{token}");
    }
    // Nobody had come to this one, as far as this state knows.
    assert_eq!(gate.ask("/r/2", 6).status, 503);
}

/// The state that the next gate starts with does not know what the one before
/// has let in: it was restored, or begun anew.
#[testbed::test]
fn with_a_state_that_is_older_or_new_nobody_passes_at_once_either() {
    let (world, upstream) = (World::new(), Upstream::start());
    let options = ["--drain-max", "1h", "--patience", "300ms"];
    let (state, backup) = (world.path("state"), world.path("backup"));
    let mut gate = Gate::start(&world, &upstream, &options);
    fs::copy(&state, &backup).unwrap();
    let address = gate.address.clone();
    let older = thread::spawn(move || super::try_ask(&address, "/r/1/hold", 7));
    until("the older request", || (upstream.seen() == 1).then_some(()));
    gate.running.child().kill().unwrap();
    gate.running.child().wait().unwrap();
    assert!(older.join().unwrap().is_none());
    // What belongs to the state is no part of the older one.
    _ = fs::remove_file(world.path("state-journal"));
    fs::copy(&backup, &state).unwrap();
    let gate = Gate::start(&world, &upstream, &options);
    assert_eq!(gate.ask("/r/1", 8).status, 503, "restored");
    drop(gate);
    fs::remove_file(&state).unwrap();
    let new = [&options[..], &["--new-state"]].concat();
    let gate = Gate::start(&world, &upstream, &new);
    assert_eq!(gate.ask("/r/1", 8).status, 503, "new");
    assert_eq!(upstream.seen(), 1);
    drop(gate);
    // The service is done with the older one by then.
    upstream.release();
    until("the older one's act", || {
        (upstream.tokens() == [7]).then_some(())
    });
    let gate = Gate::start(&world, &upstream, &["--drain-max", "1s"]);
    assert_eq!(gate.ask("/r/1", 8).status, 200);
}

#[testbed::test]
fn a_gate_that_is_told_to_end_answers_what_is_under_way() {
    let (world, upstream) = (World::new(), Upstream::start());
    let gate = Gate::start(&world, &upstream, &["--drain-max", "1h"]);
    let under_way = gate.asking("/r/1/hold", 7);
    until("the request", || (upstream.seen() == 1).then_some(()));
    gate.running.signal(Signal::SIGTERM);
    until("the end of listening", || {
        gate.try_ask("/r/1", 7).is_none().then_some(())
    });
    upstream.release();
    assert_eq!(under_way.join().unwrap().status, 200);
    assert_eq!(gate.running.done().code, 0);
}

/// One gate, killed again and again while holders of growing tokens ask it and
/// stale ones try to come in; the service takes its time. Returns the tokens in
/// the order in which the service acted on them.
fn killed_under_load(kills: u64) -> Vec<u64> {
    let (world, upstream) = (World::new(), Upstream::start());
    let options = ["--drain-max", "1s", "--patience", "5s"];
    let (token, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    let address = std::sync::Mutex::new(String::new());
    thread::scope(|scope| {
        for worker in 0..3 {
            let (token, is_over, address) = (&token, &is_over, &address);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let to = address.lock().unwrap().clone();
                    // One holder goes ahead; the others still show its past. It
                    // also goes on if the gate dies before it answers.
                    let newest = token.load(Ordering::Relaxed);
                    let shown = newest.saturating_sub(worker).max(1);
                    let answer = super::try_ask(&to, "/r/1/slow", shown);
                    let is_newer = answer.is_none_or(|answer| answer.status == 200);
                    if worker == 0 && is_newer {
                        token.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..kills {
            let before = upstream.tokens().len();
            let mut gate = Gate::start(&world, &upstream, &options);
            *address.lock().unwrap() = gate.address.clone();
            until("requests that pass", || {
                (upstream.tokens().len() > before + 2).then_some(())
            });
            gate.running.child().kill().unwrap();
            gate.running.child().wait().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    upstream.tokens()
}

#[testbed::test]
fn killed_under_load_no_stale_request_comes_after_a_newer_one() {
    let kills = testbed::times(24, 100) as u64 / GATES;
    let all: Vec<_> = thread::scope(|scope| {
        let start = |_| scope.spawn(|| killed_under_load(kills));
        let gates: Vec<_> = (0..GATES).map(start).collect();
        gates.into_iter().map(|gate| gate.join().unwrap()).collect()
    });
    for tokens in all {
        assert!(tokens.is_sorted(), "{tokens:?}");
        let distinct = tokens.iter().collect::<std::collections::BTreeSet<_>>();
        assert!(distinct.len() as u64 >= kills, "{tokens:?}");
    }
}

#[testbed::test]
fn with_a_drain_that_is_shorter_than_the_service_takes_one_does() {
    let (world, upstream) = (World::new(), Upstream::start());
    let mut gate = Gate::start(&world, &upstream, &["--drain-max", "1h"]);
    let address = gate.address.clone();
    let older = thread::spawn(move || super::try_ask(&address, "/r/1/hold", 7));
    until("the older request", || (upstream.seen() == 1).then_some(()));
    gate.running.child().kill().unwrap();
    gate.running.child().wait().unwrap();
    assert!(older.join().unwrap().is_none());
    // The service still works on the older request when the newer one passes.
    let gate = Gate::start(&world, &upstream, &["--drain-max", "1ms"]);
    until("a passage for the newer one", || {
        gate.ask("/r/1", 8);
        upstream.tokens().contains(&8).then_some(())
    });
    upstream.release();
    until("the older one's act", || {
        upstream.tokens().contains(&7).then_some(())
    });
    assert_eq!(upstream.tokens().first(), Some(&8));
}

#[testbed::test]
fn many_resources_have_marks_of_their_own_that_last() {
    let resources = testbed::times(1_000, 10_000) as u64;
    const CLIENTS: u64 = 32;
    let (world, upstream) = (World::new(), Upstream::start());
    let options = ["--drain-max", "1h"];
    let mut gate = Gate::start(&world, &upstream, &options);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let gate = &gate;
            scope.spawn(move || {
                for number in (client..resources).step_by(CLIENTS as usize) {
                    let answer = gate.ask(&format!("/r/{number}"), number + 2);
                    assert_eq!(answer.status, 200, "{number}: {answer:?}");
                }
            });
        }
    });
    gate.running.child().kill().unwrap();
    gate.running.child().wait().unwrap();
    let gate = Gate::start(&world, &upstream, &options);
    for number in (0..resources).step_by(97) {
        let stale = gate.ask(&format!("/r/{number}"), number + 1);
        assert_eq!(stale.status, 409, "{number}");
        let mark = format!("{}-{:016x}", number + 2, number + 2);
        assert_eq!(stale.json()["mark"], *mark);
    }
}
