//! Every request that a session sends is lost once, and so is every reply:
//! afterwards the store has the claims it should have, and the lock is usable.
//!
//! An operation first runs undisturbed, behind a proxy that takes note of each
//! request. It then runs once per request, each time with a new server, and the
//! proxy loses that one.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

mod proxy;
mod server;

#[path = "redis_proxy/operations.rs"]
mod operations;
#[path = "redis_proxy/scene.rs"]
mod scene;
#[path = "redis_proxy/steps.rs"]
mod steps;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::{Promises, Reach};
use libtest_mimic::{Arguments, Failed, Trial};
use operations::{OPERATIONS, Operation};
use proxy::{Fault, Request};
use scene::Scene;
use tokio::task::JoinSet;

/// How the locks lie in the server, as the URL says it.
const LAYOUTS: &[&str] = &["queue", "plain", "redisson"];

const FAULTS: &[(&str, Fault)] = &[
    ("request_lost", Fault::RequestLost),
    ("reply_lost", Fault::ReplyLost),
    ("silence", Fault::Silence),
    ("delay", Fault::Delay(Duration::from_millis(700))),
];

/// Requests of one kind that are lost in turn; later ones only repeat them.
const MOST_OF_A_KIND: usize = 3;

/// Runs in which nothing is lost. A request that each of them sent must be lost in another.
const UNDISTURBED: usize = 3;

/// Scenes at the same time. They mostly wait.
const AT_ONCE: usize = 8;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(3));
    let mut trials = Vec::new();
    for &layout in LAYOUTS {
        for operation in OPERATIONS {
            for &(name, fault) in FAULTS {
                let name = format!("{layout}::{}::{name}", operation.name);
                let trial = trial(name, layout, operation, fault);
                // The layouts that are shared with others have mutexes only.
                let is_mutex = (operation.needs)(&Promises::least(Reach::Network));
                trials.push(match layout == "queue" || is_mutex {
                    true => trial,
                    false => trial.with_kind("mutexes only").with_ignored_flag(true),
                });
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, layout: &'static str, operation: &'static Operation, fault: Fault) -> Trial {
    if let Some(what) = server::lacks_redis() {
        let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
        return Trial::test(name, move || Err(format!("{what} is missing").into()))
            .with_kind(format!("{what} is missing"))
            .with_ignored_flag(may_skip);
    }
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(lose_each(layout, operation, fault))
    })
}

/// Runs the operation once per request, and loses that one.
async fn lose_each(
    layout: &'static str,
    operation: &'static Operation,
    fault: Fault,
) -> Result<(), Failed> {
    let mut undisturbed = JoinSet::new();
    for _ in 0..UNDISTURBED {
        undisturbed.spawn(listen(layout, operation));
    }
    let mut sent_by: BTreeMap<(Request, usize), usize> = BTreeMap::new();
    while let Some(targets) = undisturbed.join_next().await {
        for target in targets? {
            *sent_by.entry(target).or_default() += 1;
        }
    }
    let is_always_sent = |request: &Request| {
        let first = sent_by.get(&(request.clone(), 0));
        first.is_some_and(|by| *by == UNDISTURBED)
    };
    assert!(
        sent_by.keys().any(|(request, _)| is_always_sent(request)),
        "no request is sent always"
    );
    let mut fired: BTreeMap<Request, bool> = BTreeMap::new();
    let mut runs = JoinSet::new();
    for (request, passes) in sent_by.keys().cloned() {
        if runs.len() >= AT_ONCE {
            note(&mut fired, runs.join_next().await)?;
        }
        runs.spawn(async move {
            let scene = Scene::start(layout).await;
            scene.proxy.arm(request.clone(), passes, fault);
            let run = tokio::spawn((operation.run)(scene.clone()));
            match run.await {
                Ok(_) => Ok((request, scene.proxy.has_fired())),
                Err(error) => {
                    let log = scene.proxy.log();
                    Err(format!(
                        "{request:?} after {passes}: {error}; sent: {log:?}"
                    ))
                }
            }
        });
    }
    while !runs.is_empty() {
        note(&mut fired, runs.join_next().await)?;
    }
    // Some requests depend on the time, so not each run comes to its fault: what a slow
    // machine alone sends is lost if it comes, and required by nobody.
    let unfired: Vec<_> = fired
        .iter()
        .filter(|(request, fired)| !**fired && is_always_sent(request))
        .collect();
    assert!(unfired.is_empty(), "never lost: {unfired:?}");
    Ok(())
}

/// What the operation sends when nothing is lost.
async fn listen(layout: &'static str, operation: &'static Operation) -> Vec<(Request, usize)> {
    let scene = Scene::start(layout).await;
    let is_promised = (operation.needs)(&scene.witness().await.promises());
    assert!(is_promised, "{layout} promises {}", operation.name);
    let sessions = (operation.run)(scene.clone()).await;
    let targets = proxy::targets(scene.proxy.log(), MOST_OF_A_KIND);
    drop(sessions);
    targets
}

type Run = Result<Result<(Request, bool), String>, tokio::task::JoinError>;

fn note(fired: &mut BTreeMap<Request, bool>, run: Option<Run>) -> Result<(), Failed> {
    if let Some(run) = run {
        let (request, has_fired) = run??;
        *fired.entry(request).or_default() |= has_fired;
    }
    Ok(())
}
