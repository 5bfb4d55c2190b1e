//! The first session ever admits the nodes: all or none of them.

use std::time::Instant;

use leasehold::ErrorKind;
use leasehold::redlock::{Standing, admit, status};

use crate::redlock::scene::{LONG, Scene, within};

const OPTIONS: &str = "ttl=20s";

async fn standings(scene: &Scene) -> Vec<Standing> {
    let stati = status(&scene.url(OPTIONS)).await.unwrap();
    stati.into_iter().map(|status| status.standing).collect()
}

/// A node of a busy machine that answers late is away for a moment.
async fn come_to(scene: &Scene, expected: &[Standing]) {
    let deadline = Instant::now() + LONG;
    loop {
        let now = standings(scene).await;
        if now == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{now:?}");
    }
}

/// What the node has in memory if its server is admitted.
fn mark(scene: &Scene, node: usize) -> String {
    let run = scene.fleet.servers[node].info("run_id").unwrap();
    format!("{run}/{}", scene.fleet.servers.len())
}

/// Writes what a founding leaves on a node: its mark, or that it is admitted.
fn write_mark(scene: &Scene, node: usize, floor: &str, is_admitted: bool) {
    let server = &scene.fleet.servers[node];
    let run = mark(scene, node);
    let mut words = vec!["HSET", "lh:redlock", "floor", floor, "founding", &run];
    if is_admitted {
        words.extend(["run", &run]);
    }
    server.command(&words);
}

#[testbed::test]
async fn new_nodes_are_founded_when_all_are_there_and_not_before() {
    let mut scene = Scene::start(3, &[]);
    scene.fleet.servers[2].kill();
    let session = scene.session(OPTIONS).await;
    let error = session.mutex("ledger").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!error.to_string().contains('\n'), "{error}");
    let now = standings(&scene).await;
    assert_eq!(now[..2], [Standing::Empty, Standing::Empty]);
    assert!(matches!(now[2], Standing::Away(_)));
    scene.fleet.servers[2].start_again();
    // The session finds out by itself.
    let guard = session.mutex("ledger").lock_within(LONG).await.unwrap();
    come_to(&scene, &[const { Standing::Good }; 3]).await;
    guard.release().await.unwrap();
}

#[testbed::test]
async fn all_nodes_begin_above_the_clock_and_no_note_is_permanent() {
    let scene = Scene::start(3, &[]);
    let now = std::time::SystemTime::now();
    let micros = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_micros();
    let session = scene.session(OPTIONS).await;
    let guard = session.mutex("ledger").lock().await.unwrap();
    assert!(u128::from(guard.token().get()) > micros);
    let floors = scene
        .fleet
        .servers
        .iter()
        .map(|node| node.tell("HGET lh:redlock floor"));
    let floors: std::collections::BTreeSet<_> = floors.collect();
    assert_eq!(floors.len(), 1, "{floors:?}");
    let notes = scene
        .fleet
        .servers
        .iter()
        .map(|node| node.tell("PTTL lh:r:ledger"));
    let notes: Vec<i64> = notes.map(|left| left.parse().unwrap()).collect();
    let hour = 60 * 60 * 1000;
    let is_there = notes
        .iter()
        .filter(|left| (hour..=hour + 20_000).contains(*left));
    assert!(is_there.count() >= 2, "{notes:?}");
}

#[testbed::test]
async fn a_founding_that_was_broken_off_goes_on() {
    for admitted in 0..3 {
        let scene = Scene::start(3, &[]);
        let floor = "5000000000000000";
        (0..3).for_each(|node| write_mark(&scene, node, floor, node < admitted));
        let session = scene.session(OPTIONS).await;
        let guard = session.mutex("ledger").lock().await.unwrap();
        assert!(guard.token().get() > 5_000_000_000_000_000);
        // A majority is enough to begin with; the rest follows.
        let all_are_good = async {
            while standings(&scene).await != [const { Standing::Good }; 3] {
                let other = session.mutex("other").lock().await.unwrap();
                other.release().await.unwrap();
            }
        };
        within("admit all", all_are_good).await;
    }
}

#[testbed::test]
async fn a_founding_that_was_broken_off_before_all_had_its_mark_begins_anew() {
    let scene = Scene::start(3, &[]);
    write_mark(&scene, 0, "7", false);
    let session = scene.session(OPTIONS).await;
    come_to(&scene, &[const { Standing::Good }; 3]).await;
    let guard = session.mutex("ledger").lock().await.unwrap();
    guard.check().unwrap();
}

#[testbed::test]
async fn a_server_that_forgot_does_not_slip_in_while_others_are_founded() {
    let mut scene = Scene::start(3, &[]);
    write_mark(&scene, 0, "7", true);
    write_mark(&scene, 1, "7", false);
    write_mark(&scene, 2, "7", false);
    scene.fleet.servers[2].restart();
    let session = scene.session(OPTIONS).await;
    let now = standings(&scene).await;
    assert_eq!(now[0], Standing::Good);
    assert_eq!(
        now[2],
        Standing::Empty,
        "it forgot what it may have granted"
    );
    drop(session);
    // A copy of another's data, such as a snapshot, is no mark of its own.
    let other = mark(&scene, 1);
    let copied = ["HSET", "lh:redlock", "floor", "7", "founding", &other];
    scene.fleet.servers[2].command(&copied);
    let _session = scene.session(OPTIONS).await;
    assert_ne!(standings(&scene).await[2], Standing::Good);
}

#[testbed::test]
async fn many_sessions_found_the_nodes_at_once() {
    let scene = Scene::start(5, &[]);
    let url = scene.url(OPTIONS);
    let mut sessions = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let url = url.clone();
        sessions.spawn(async move {
            let session = leasehold::connect(&url).await.unwrap();
            let guard = session.mutex("ledger").lock_within(LONG).await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            token
        });
    }
    let tokens = within("lock", sessions.join_all()).await;
    let different: std::collections::BTreeSet<_> = tokens.iter().collect();
    assert_eq!(different.len(), 8, "{tokens:?}");
    come_to(&scene, &[const { Standing::Good }; 5]).await;
    assert!(
        admit(&url, &[]).await.unwrap().is_empty(),
        "nobody waits for it"
    );
}
