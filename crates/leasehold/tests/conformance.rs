//! Every case on every store. A case that a store does not promise is listed as
//! ignored, with the reason.

use std::process::ExitCode;

use leasehold::Promises;
use leasehold::conformance::{Bench, Case, cases, is_peer, peer_main};
use libtest_mimic::{Arguments, Failed, Trial};

/// A store to test on: new and empty for every case.
struct Store {
    name: &'static str,
    /// The URL of a new one, in a folder that is deleted afterwards.
    url: fn(folder: &std::path::Path, case: usize) -> String,
}

const STORES: &[Store] = &[
    Store {
        name: "memory",
        url: |_, case| format!("memory:case-{case}"),
    },
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    Store {
        name: "sqlite",
        url: |folder, case| format!("sqlite:{}/case-{case}.db", folder.display()),
    },
];

fn main() -> ExitCode {
    if is_peer() {
        peer_main(None);
    }
    let mut arguments = Arguments::from_args();
    // Cases mostly wait; more of them at once than there are cores is faster
    // and also harder on them.
    arguments.test_threads = arguments.test_threads.or(Some(8));
    let trials = STORES.iter().flat_map(trials).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(store: &'static Store) -> Vec<Trial> {
    let promises = match promises(store) {
        Ok(promises) => promises,
        Err(error) => return vec![Trial::test(store.name, move || Err(Failed::from(error)))],
    };
    let trial = |(number, case): (usize, Case)| {
        let name = format!("{}::{}", store.name, case.name);
        match (case.needs)(&promises) {
            Ok(()) => Trial::test(name, move || run(store, number, &case)),
            Err(why) => Trial::test(name, || Ok(()))
                .with_kind(format!("{} {why}", store.name))
                .with_ignored_flag(true),
        }
    };
    cases().into_iter().enumerate().map(trial).collect()
}

fn promises(store: &Store) -> Result<Promises, leasehold::Error> {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let url = (store.url)(folder.path(), usize::MAX);
    runtime().block_on(async { Ok(Bench::new(&url).await?.promises()) })
}

fn run(store: &Store, number: usize, case: &Case) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let url = (store.url)(folder.path(), number);
    let runtime = runtime();
    runtime.block_on(async {
        let bench = Bench::new(&url).await?;
        case.run(bench).await;
        Ok(())
    })
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads start")
}
