//! The session under a bad network, by seed and on simulated time: no two ever
//! believe to hold, tokens grow, and in fine weather everything comes right.
//!
//! `LEASEHOLD_SEED=N cargo test -p leasehold --features conformance --test
//! core seeds` runs one seed and prints what happens.

mod broken;
mod client;
pub(crate) mod faulty;
mod ledger;
mod memo;
pub(crate) mod rng;
mod world;

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use world::{Outcome, Plan, simulate};

const SEEDS: u64 = 2000;
/// A seed takes milliseconds; one that takes this long turns in circles.
const STUCK: Duration = Duration::from_secs(30);

#[test]
fn no_seed_finds_a_fault() {
    if let Ok(seed) = std::env::var("LEASEHOLD_SEED") {
        let seed = seed.parse().expect("LEASEHOLD_SEED is a number");
        let outcome = simulate(
            seed,
            Plan {
                prints: true,
                ..Plan::default()
            },
        );
        assert!(outcome.faults.is_empty(), "{}", repeat(seed, &outcome));
        return;
    }
    let seeds = std::env::var("LEASEHOLD_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    let found = search(seeds, Plan::default(), 10);
    let reports: Vec<_> = found
        .iter()
        .map(|(seed, outcome)| repeat(*seed, outcome))
        .collect();
    assert!(found.is_empty(), "{}", reports.join("\n"));
}

#[test]
fn a_seed_repeats_itself() {
    for seed in 0..50 {
        let (first, second) = (
            simulate(seed, Plan::default()),
            simulate(seed, Plan::default()),
        );
        assert_eq!(first, second, "seed {seed}");
    }
}

/// What the simulation says to an engine with a defect.
fn caught(broken: world::Make) -> String {
    let plan = Plan {
        broken: Some(broken),
        ..Plan::default()
    };
    let found = search(SEEDS, plan, 3);
    let faults = found.into_iter().flat_map(|(_, outcome)| outcome.faults);
    faults.collect::<Vec<_>>().join("; ")
}

#[test]
fn an_engine_that_withdraws_for_anyone_is_caught() {
    let said = caught(broken::no_owner_check);
    assert!(said.contains("held at once"), "{said}");
}

#[test]
fn an_engine_that_ends_leases_early_is_caught() {
    let said = caught(broken::early_expiry);
    assert!(said.contains("held at once"), "{said}");
}

#[test]
fn an_engine_that_brings_leases_back_is_caught() {
    let said = caught(broken::resurrection);
    assert!(said.contains("no longer has"), "{said}");
}

#[test]
fn an_engine_whose_tokens_do_not_grow_is_caught() {
    let said = caught(broken::stuck_token);
    assert!(said.contains("was granted twice"), "{said}");
}

#[test]
fn an_engine_that_does_not_withdraw_is_caught() {
    let said = caught(broken::lazy_withdraw);
    assert!(said.contains("left over"), "{said}");
}

#[test]
fn no_two_who_hold_write_the_same_number_into_a_memo() {
    let mut told = 0;
    for seed in 0..SEEDS / 4 {
        let (faults, written) = memo::count(seed, None);
        assert!(faults.is_empty(), "seed {seed}: {}", faults.join("; "));
        told += written;
    }
    assert!(told > 1000, "{told} writes were told");
}

#[test]
fn a_memo_that_anyone_can_write_is_caught() {
    let found = (0..SEEDS).find(|seed| {
        !memo::count(*seed, Some(broken::no_owner_check))
            .0
            .is_empty()
    });
    assert!(found.is_some());
}

/// The first so many seeds that find a fault, searched on every core.
fn search(seeds: u64, plan: Plan, enough: usize) -> Vec<(u64, Outcome)> {
    let next = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let running: Vec<_> = (0..threads).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = running
            .iter()
            .map(|running| {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds || lock().len() >= enough {
                            return;
                        }
                        *running.lock().unwrap() = Some((seed, Instant::now()));
                        let outcome = simulate(seed, plan);
                        *running.lock().unwrap() = None;
                        if !outcome.faults.is_empty() {
                            lock().push((seed, outcome));
                        }
                    }
                })
            })
            .collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            for (seed, since) in running
                .iter()
                .filter_map(|running| *running.lock().unwrap())
            {
                if since.elapsed() > STUCK {
                    // Simulated time does not pass, so nothing else ends it.
                    let report = format!("seed {seed} turns in circles: {}\n", command(seed));
                    std::io::stderr().write_all(report.as_bytes()).unwrap();
                    std::process::exit(101);
                }
            }
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn repeat(seed: u64, outcome: &Outcome) -> String {
    format!(
        "seed {seed}: {}\n  {}",
        outcome.faults.join("; "),
        command(seed)
    )
}

fn command(seed: u64) -> String {
    format!(
        "LEASEHOLD_SEED={seed} cargo test -p leasehold --all-features --test core \
         no_seed_finds_a_fault -- --nocapture"
    )
}
