//! Every request that a session sends is lost once, and so is every reply:
//! afterwards the store has the claims it should have, and the lock is usable.
//!
//! An operation first runs undisturbed, behind a proxy that takes note of each
//! request. It then runs once per request, each time with a new server, and the
//! proxy loses that one.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{Promises, Reach, Session};
use libtest_mimic::Trial;
use testbed::proxy::{Fault, Request};
use testbed::redis::lacks_redis;
use testbed::{block_on, need};
use tokio::task::JoinSet;

use crate::operations::{OPERATIONS, Operation};
use crate::scene::Scene;
use crate::steps::within;

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

pub(crate) fn trials() -> Vec<Trial> {
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
    trials
}

fn trial(name: String, layout: &'static str, operation: &'static Operation, fault: Fault) -> Trial {
    testbed::trial(name, move || {
        need(lacks_redis());
        block_on(lose_each(layout, operation, fault)).unwrap();
    })
}

/// Runs the operation once per request, and loses that one.
async fn lose_each(
    layout: &'static str,
    operation: &'static Operation,
    fault: Fault,
) -> Result<(), String> {
    let mut undisturbed = JoinSet::new();
    for _ in 0..UNDISTURBED {
        undisturbed.spawn(listen(layout, operation));
    }
    let mut sent_by: BTreeMap<(Request, usize), usize> = BTreeMap::new();
    while let Some(targets) = undisturbed.join_next().await {
        for target in targets.unwrap() {
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
            let scene = Scene::with_layout(layout).await;
            scene.proxy.arm(&request, passes, fault);
            let run = tokio::spawn({
                let scene = scene.clone();
                async move { close((operation.run)(scene).await).await }
            });
            match run.await {
                Ok(()) => Ok((request, scene.proxy.have_fired())),
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
    let scene = Scene::with_layout(layout).await;
    let is_promised = (operation.needs)(&scene.witness().await.promises());
    assert!(is_promised, "{layout} promises {}", operation.name);
    let sessions = (operation.run)(scene.clone()).await;
    let targets = testbed::proxy::targets(scene.proxy.log(), MOST_OF_A_KIND);
    close(sessions).await;
    targets
}

/// Ends the sessions, so that no request of theirs comes to the next scene's server.
async fn close(sessions: [Session; 2]) {
    for session in sessions {
        within("close", session.close()).await;
    }
}

type Run = Result<Result<(Request, bool), String>, tokio::task::JoinError>;

fn note(fired: &mut BTreeMap<Request, bool>, run: Option<Run>) -> Result<(), String> {
    if let Some(run) = run {
        let (request, has_fired) = run.map_err(|error| error.to_string())??;
        *fired.entry(request).or_default() |= has_fired;
    }
    Ok(())
}
