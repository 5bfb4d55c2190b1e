//! Every request that a session sends to one node, or to a majority of them, is
//! lost once, and so is every reply: one holds, tokens grow, nothing is left.
//!
//! An operation first runs undisturbed a few times, behind proxies that take
//! note of each request. It then runs once per request, and the proxies lose
//! that one. What every undisturbed run sends must have been lost in the end;
//! what only some send, by the clock or by which node was first, is tried too.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold::redlock::admit;
use leasehold::{ErrorKind, Promises, Reach, Session};
use libtest_mimic::Trial;
use testbed::proxy::{Fault, Request};
use testbed::redis::lacks_redis;
use testbed::{block_on, need};
use tokio::task::JoinSet;

use crate::operations::{OPERATIONS, Operation};
use crate::scene::Scene;
use crate::steps::{NAME, afterwards, give_back, held, within};

const READMIT: Operation = Operation {
    name: "readmit",
    needs: |_| true,
    run: |scene| Box::pin(readmit(scene)),
};

/// What is lost, and at how many of three nodes.
const FAULTS: &[(&str, Fault, usize)] = &[
    ("request_lost_at_one", Fault::RequestLost, 1),
    ("reply_lost_at_one", Fault::ReplyLost, 1),
    ("silence_at_one", Fault::Silence, 1),
    ("request_lost_at_two", Fault::RequestLost, 2),
    ("reply_lost_at_two", Fault::ReplyLost, 2),
];

/// Requests of one kind that are lost in turn; later ones only repeat them.
const MOST_OF_A_KIND: usize = 2;

/// How often it is tried to come to a fault.
const ROUNDS: usize = 20;

/// Undisturbed runs. A request that half of the runs send is in all of these
/// once in thirty times, but then comes again within a few rounds; one that is
/// rare enough never to come again is not in all of these.
const UNDISTURBED: usize = 5;

/// Scenes at the same time. They mostly wait.
const AT_ONCE: usize = 6;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mutexes = |operation: &&Operation| (operation.needs)(&Promises::least(Reach::Network));
    for operation in OPERATIONS.iter().filter(mutexes).chain([&READMIT]) {
        for &(name, fault, nodes) in FAULTS {
            trials.push(trial(operation, name, fault, nodes));
        }
    }
    trials
}

fn trial(operation: &'static Operation, name: &str, fault: Fault, nodes: usize) -> Trial {
    let name = format!("redlock::{}::{name}", operation.name);
    testbed::trial(name, move || {
        need(lacks_redis());
        block_on(lose_each(operation, fault, nodes)).unwrap();
    })
}

/// Runs the operation once per request, and loses that one.
async fn lose_each(
    operation: &'static Operation,
    fault: Fault,
    nodes: usize,
) -> Result<(), String> {
    let mut runs = JoinSet::new();
    for _ in 0..UNDISTURBED {
        runs.spawn(async move {
            let scene = Scene::of_nodes(nodes).await;
            let sessions = (operation.run)(scene.clone()).await;
            let targets = testbed::proxy::targets(scene.proxy.log(), MOST_OF_A_KIND);
            finish(&scene, sessions).await;
            targets
        });
    }
    let mut sent_by: BTreeMap<(Request, usize), usize> = BTreeMap::new();
    while let Some(targets) = runs.join_next().await {
        for target in targets.unwrap() {
            *sent_by.entry(target).or_default() += 1;
        }
    }
    let always = |by: &usize| *by == UNDISTURBED;
    assert!(sent_by.values().any(always), "no request is sent always");
    let mut open = sent_by.clone();
    for _ in 0..ROUNDS {
        let targets: Vec<_> = open.keys().cloned().collect();
        for target in lose(operation, fault, nodes, &targets).await? {
            open.remove(&target);
        }
    }
    // A request that repeats another may not come: who waits asks anew after a while that
    // differs from run to run. So one of each kind that is always sent must have been lost.
    let is_lost = |request: &Request| {
        let all = sent_by.keys().filter(|(other, _)| other == request).count();
        let left = open.keys().filter(|(other, _)| other == request).count();
        left < all
    };
    let never: Vec<_> = sent_by
        .iter()
        .filter(|((request, _), by)| always(by) && !is_lost(request))
        .collect();
    assert!(never.is_empty(), "never lost: {never:?}");
    Ok(())
}

/// Loses each of these, in a run of its own, and says which came.
async fn lose(
    operation: &'static Operation,
    fault: Fault,
    nodes: usize,
    targets: &[(Request, usize)],
) -> Result<Vec<(Request, usize)>, String> {
    let mut runs = JoinSet::new();
    let mut lost = Vec::new();
    for (request, passes) in targets.iter().cloned() {
        if runs.len() >= AT_ONCE {
            lost.extend(came(runs.join_next().await)?);
        }
        runs.spawn(async move {
            let scene = Scene::of_nodes(nodes).await;
            scene.proxy.arm(&request, passes, fault);
            let run = tokio::spawn({
                let scene = scene.clone();
                async move {
                    let sessions = (operation.run)(scene.clone()).await;
                    finish(&scene, sessions).await;
                }
            });
            match run.await {
                Ok(()) => Ok(scene.proxy.have_fired().then_some((request, passes))),
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
        lost.extend(came(runs.join_next().await)?);
    }
    Ok(lost)
}

/// Ends the sessions and looks for what they left.
async fn finish(scene: &Scene, sessions: [Session; 2]) {
    for session in sessions {
        within("close", session.close()).await;
    }
    scene.is_clean().await;
}

type Run = Result<Result<Option<(Request, usize)>, String>, tokio::task::JoinError>;

/// What was lost in a run.
fn came(run: Option<Run>) -> Result<Option<(Request, usize)>, String> {
    let run = run.transpose().map_err(|error| error.to_string())?;
    Ok(run.transpose()?.flatten())
}

/// A node forgets, and its operator lets it in again.
async fn readmit(scene: Arc<Scene>) -> [Session; 2] {
    let (subject, witness) = (scene.subject().await, scene.witness().await);
    let guard = held(subject.mutex(NAME).lock()).await;
    let before = guard.token();
    give_back(guard).await;
    scene.forget(0);
    let url = scene.url();
    let admitted = async {
        loop {
            match admit(url, &[]).await {
                Ok(admitted) => return admitted,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    };
    // Empty if the node was admitted and the answer was lost.
    let admitted = within("admit", admitted).await;
    let guard = held(subject.mutex(NAME).lock()).await;
    assert!(guard.token() > before);
    for floor in admitted.iter().filter_map(|admission| admission.floor) {
        assert!(guard.token().get() > floor);
    }
    give_back(guard).await;
    afterwards(witness, subject).await
}
