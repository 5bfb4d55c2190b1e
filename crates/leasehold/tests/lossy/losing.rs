//! Loses each request of an operation once.
//!
//! An operation first runs undisturbed a few times, behind proxies that take note of each
//! request. It then runs once per request, and the proxies lose that one. Which requests
//! are sent depends on the time: what every undisturbed run sends must have been lost in
//! the end, in as many runs as that takes; what only some send is tried too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold::Session;
use testbed::proxy::{Fault, Request, targets};
use tokio::task::JoinSet;

use crate::operations::Operation;
use crate::scene::Scene;
use crate::steps::within;

/// Requests of one kind that are lost in turn; later ones only repeat them.
const MOST_OF_A_KIND: usize = 3;

/// Runs in which nothing is lost.
const UNDISTURBED: usize = 3;

/// How often it is tried to come to a request that is missing. One of which every second
/// run has to do without is in all undisturbed runs once in eight times, and then comes
/// within a few rounds; one that is too rare for so many rounds is not in all of those.
const ROUNDS: usize = 100;

/// Scenes at the same time. They mostly wait.
const AT_ONCE: usize = 8;

/// Makes a new scene, each time another one.
pub(crate) type MakeScene = Arc<dyn Fn() -> BoxFuture<'static, Arc<Scene>> + Send + Sync>;

/// Which request: its kind, and how many of that kind come before it.
type Target = (Request, usize);

/// Runs the operation once per request, and loses that one.
pub(crate) async fn lose_each(
    operation: &'static Operation,
    fault: Fault,
    make: MakeScene,
) -> Result<(), String> {
    let sent_by = sent_by(operation, &make).await;
    let required: BTreeSet<Request> = sent_by
        .iter()
        .filter(|(_, runs)| **runs == UNDISTURBED)
        .map(|((request, _), _)| request.clone())
        .collect();
    assert!(!required.is_empty(), "no request is sent always");
    let mut lost = lose(operation, fault, &make, sent_by.into_keys().collect()).await?;
    for _ in 0..ROUNDS {
        let missing = required.difference(&lost).cloned();
        let missing: Vec<Target> = missing.map(|request| (request, 0)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        lost.extend(lose(operation, fault, &make, missing).await?);
    }
    let never: Vec<_> = required.difference(&lost).collect();
    assert!(never.is_empty(), "never lost: {never:?}");
    Ok(())
}

/// What the operation sends when nothing is lost, and in how many runs.
async fn sent_by(operation: &'static Operation, make: &MakeScene) -> BTreeMap<Target, usize> {
    let mut runs = JoinSet::new();
    for _ in 0..UNDISTURBED {
        let scene = make();
        runs.spawn(async move {
            let scene = scene.await;
            let name = operation.name;
            let is_promised = (operation.needs)(&scene.witness().await.promises());
            assert!(is_promised, "the store promises {name}");
            let sessions = (operation.run)(scene.clone()).await;
            let targets = targets(scene.proxy.log(), MOST_OF_A_KIND);
            finish(&scene, sessions).await;
            targets
        });
    }
    let mut sent_by = BTreeMap::new();
    while let Some(targets) = runs.join_next().await {
        for target in targets.unwrap() {
            *sent_by.entry(target).or_default() += 1;
        }
    }
    sent_by
}

/// Loses each of these, in a run of its own, and says which came.
async fn lose(
    operation: &'static Operation,
    fault: Fault,
    make: &MakeScene,
    targets: Vec<Target>,
) -> Result<BTreeSet<Request>, String> {
    let mut runs = JoinSet::new();
    let mut lost = BTreeSet::new();
    for (request, passes) in targets {
        if runs.len() >= AT_ONCE {
            lost.extend(came(runs.join_next().await)?);
        }
        let scene = make();
        runs.spawn(async move {
            let scene = scene.await;
            scene.proxy.arm(&request, passes, fault);
            let run = tokio::spawn({
                let scene = scene.clone();
                async move {
                    let sessions = (operation.run)(scene.clone()).await;
                    finish(&scene, sessions).await;
                }
            });
            match run.await {
                Ok(()) => Ok(scene.proxy.have_fired().then_some(request)),
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

type Run = Result<Result<Option<Request>, String>, tokio::task::JoinError>;

/// What was lost in a run.
fn came(run: Option<Run>) -> Result<Option<Request>, String> {
    let run = run.transpose().map_err(|error| error.to_string())?;
    Ok(run.transpose()?.flatten())
}

/// Ends the sessions, so that no request of theirs comes to the next scene's server, and
/// looks for what they left.
async fn finish(scene: &Scene, sessions: [Session; 2]) {
    for session in sessions {
        within("close", session.close()).await;
    }
    scene.is_clean().await;
}
