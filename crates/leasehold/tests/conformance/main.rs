//! Every case on every store. A case that a store does not promise is ignored, with the
//! reason; so is one that only `cargo xtask test --all` runs.
//!
//! A variant is a store in another setting: another topology, version or isolation level.
//! Each variant runs a spread of the cases, and the spreads of all variants together are
//! all cases; `LEASEHOLD_TEST_ROTATION=N` runs the N-th variant in full.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod schemas;
mod stores;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod turns;

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use leasehold::Promises;
use leasehold::conformance::{Bench, Case, cases, is_peer, peer_main};
use libtest_mimic::Trial;
use stores::STORES;
use testbed::block_on;

/// A store to test on: new and empty for every case.
struct Store {
    name: &'static str,
    /// Whether the store runs all cases in another setting already.
    is_variant: bool,
    /// What it needs that this machine lacks, if so.
    lacks: fn() -> Option<&'static str>,
    /// A new one, in a folder that is deleted afterwards.
    start: fn(folder: &Path, case: usize) -> Started,
}

/// A store to connect to.
struct Started {
    url: String,
    /// Gives the store's server back when it is dropped.
    _server: Option<Box<dyn std::any::Any>>,
}

/// What a quick run is content with.
const WITHOUT_SERVER: [&str; 2] = ["memory", "sqlite"];

/// Each variant runs every so-manieth case.
const SPREAD: usize = 5;

/// Cases at the same time. They mostly wait, also for a server of their store.
const AT_ONCE: usize = 8;

fn main() -> ExitCode {
    if is_peer() {
        peer_main(None);
    }
    // What is wrong with them ends the program, which must not have started servers then.
    let _ = libtest_mimic::Arguments::from_args();
    let rotation = env::var("LEASEHOLD_TEST_ROTATION").ok();
    let rotation = rotation.and_then(|text| text.parse::<usize>().ok());
    let variants = STORES.iter().filter(|store| store.is_variant);
    let variants: Vec<_> = variants.map(|store| store.name).collect();
    let all = testbed::runs_all();
    let is_quick = env::var_os("LEASEHOLD_TEST_QUICK").is_some();
    let in_turn = rotation.map(|number| number % variants.len());
    if let Some(name) = in_turn.filter(|_| !all && !is_quick) {
        testbed::note(&format!("{} runs in full", variants[name]));
    }
    let of_store = |store: &'static Store| {
        if is_quick && !WITHOUT_SERVER.contains(&store.name) {
            return vec![testbed::left_out(store.name, "not with --quick")];
        }
        let place = variants.iter().position(|name| *name == store.name);
        let spread = place.filter(|_| !all && in_turn != place);
        trials(store, spread)
    };
    // All servers start at once, to tell what they promise.
    let trials = thread::scope(|scope| {
        let asked = STORES
            .iter()
            .map(|store| (store, scope.spawn(|| of_store(store))));
        let asked: Vec<_> = asked.collect();
        let told = asked.into_iter().map(|(store, asked)| {
            let panicked = |_| vec![testbed::trial(store.name, || panic!("it did not start"))];
            asked.join().unwrap_or_else(panicked)
        });
        told.collect()
    });
    let code = testbed::run_trials(AT_ONCE, one_of_each(trials));
    stores::end();
    code
}

/// One of each store after the other: so a store whose cases have to wait for
/// each other does not hold up the others.
fn one_of_each(stores: Vec<Vec<Trial>>) -> Vec<Trial> {
    let mut stores: Vec<_> = stores.into_iter().map(Vec::into_iter).collect();
    let mut trials = Vec::new();
    loop {
        let before = trials.len();
        trials.extend(stores.iter_mut().filter_map(Iterator::next));
        if trials.len() == before {
            return trials;
        }
    }
}

/// The cases of a store; of a spread, every so-manieth from there.
fn trials(store: &'static Store, spread: Option<usize>) -> Vec<Trial> {
    if let Some(what) = (store.lacks)() {
        let trial = testbed::trial(store.name, move || testbed::need(Some(what)));
        return vec![trial];
    }
    let (promises, tells_time) = match promises(store) {
        Ok(promises) => promises,
        Err(error) => return vec![testbed::trial(store.name, move || panic!("{error}"))],
    };
    let trial = |(number, case): (usize, Case)| {
        let name = format!("{}::{}", store.name, case.name);
        let needs = (case.needs)(&promises);
        let is_left_out = spread.is_some_and(|from| number % SPREAD != from % SPREAD);
        match needs {
            Err(why) => testbed::left_out(name, &format!("not promised: {} {why}", store.name)),
            Ok(()) if is_left_out => testbed::left_out(name, "only with --all"),
            Ok(()) => testbed::trial(name, move || run(store, number, &case)),
        }
    };
    let mut trials: Vec<_> = cases().into_iter().enumerate().map(trial).collect();
    trials.push(testbed::trial(
        format!("{}::promises_what_is_written_down", store.name),
        move || {
            let told = format!("{promises:?} Time: {tells_time}");
            assert_eq!(written(store.name), told);
        },
    ));
    trials
}

/// What a store has to promise. Else one that promises less would be asked for less.
fn written(store: &str) -> &'static str {
    let mut lines = include_str!("promises.txt").lines();
    let promises = lines.find_map(|line| line.strip_prefix(store)?.strip_prefix(": "));
    promises.unwrap_or("nothing")
}

/// What a store promises, and whether it tells the time.
fn promises(store: &Store) -> Result<(Promises, bool), leasehold::Error> {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let started = (store.start)(folder.path(), usize::MAX);
    block_on(async {
        let session = leasehold::connect(&started.url).await?;
        let promises = session.promises();
        let mut tells_time = false;
        if promises.memo {
            let guard = session.mutex("clock").lock().await?;
            tells_time = session.memo("clock").await?.time.is_some();
            guard.release().await?;
        }
        session.close().await;
        Ok((promises, tells_time))
    })
}

fn run(store: &Store, number: usize, case: &Case) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let started = (store.start)(folder.path(), number);
    block_on(async {
        let bench = Bench::new(&started.url).await;
        case.run(bench.expect("the store is there")).await;
    });
}
