//! Nodes are killed and start empty, one after the other, under load. With
//! quarantine no token comes twice and none goes back; without, both happen.
//!
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use super::load::{History, lose_keys, take_turns};
use super::scene::{LONG, Scene};
use leasehold::redlock::{Standing, admit, status};
use tokio::task::JoinSet;

const NODES: usize = 5;
const SESSIONS: usize = 6;

/// How much must have happened before nothing wrong means something.
const GRANTS: usize = 200;
const RESTARTS: usize = 12;

/// The load, while nodes forget one after the other. Ends once enough has happened, or as
/// soon as anything is wrong if that is what is looked for.
async fn forget_under_load(mut scene: Scene, quarantine: bool) -> (Arc<History>, usize) {
    let options = if quarantine {
        "ttl=1s"
    } else {
        "ttl=1s&quarantine=off"
    };
    let url = scene.url(options);
    let (history, is_over) = (
        Arc::new(History::default()),
        Arc::new(AtomicBool::new(false)),
    );
    let mut load = JoinSet::new();
    for number in 0..SESSIONS {
        let session = leasehold::connect(&url).await.unwrap();
        let (history, is_over) = (history.clone(), is_over.clone());
        load.spawn(take_turns(session, number, history, is_over));
    }
    let ports: Vec<_> = scene.fleet.servers.iter().map(|node| node.port()).collect();
    load.spawn(lose_keys(ports, is_over.clone()));
    let (end, mut restarts) = (Instant::now() + LONG, 0);
    let is_enough = |restarts| match quarantine {
        true => history.len() >= GRANTS && restarts >= RESTARTS,
        false => history.wrong().is_some(),
    };
    while Instant::now() < end && !is_enough(restarts) {
        // Two of five at a time at most, and both count before the next forget.
        let nodes = [restarts % NODES, (restarts + 1) % NODES];
        let forgetful = if quarantine { &nodes[..] } else { &nodes[..1] }.to_vec();
        restarts += forgetful.len();
        scene = tokio::task::spawn_blocking(move || {
            for node in forgetful {
                scene.fleet.servers[node].restart();
            }
            scene
        })
        .await
        .unwrap();
        // The operator's part; without quarantine whoever meets a node lets it in.
        while !all_count(&url).await {
            assert!(Instant::now() < end + LONG, "not admitted");
            if quarantine {
                let _ = admit(&url, &[]).await;
            }
        }
    }
    is_over.store(true, SeqCst);
    for ended in load.join_all().await {
        ended.unwrap();
    }
    (history, restarts)
}

async fn all_count(url: &str) -> bool {
    let stati = status(url).await.unwrap();
    stati.iter().all(|status| status.standing == Standing::Good)
}

#[testbed::test]
async fn no_token_repeats_or_goes_back_when_nodes_forget() {
    let scene = Scene::start(NODES, &[]);
    let (history, restarts) = forget_under_load(scene, true).await;
    assert_eq!(history.wrong(), None);
    eprintln!("{} grants, {restarts} restarts", history.len());
    assert!(history.len() >= GRANTS, "only {} grants", history.len());
    assert!(restarts >= RESTARTS, "only {restarts} restarts");
}

#[testbed::test]
async fn without_quarantine_tokens_repeat_or_go_back() {
    let scene = Scene::start(NODES, &[]);
    let (history, restarts) = forget_under_load(scene, false).await;
    let wrong = history.wrong();
    let wrong = wrong.unwrap_or_else(|| {
        let grants = history.len();
        panic!("found nothing in {grants} grants and {restarts} restarts")
    });
    eprintln!(
        "after {} grants, {restarts} restarts: {wrong}",
        history.len()
    );
}
