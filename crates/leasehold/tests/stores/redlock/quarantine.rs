//! Nodes that restarted, and how they come back.

use std::time::{Duration, Instant};

use leasehold::redlock::{Standing, admit, status};
use leasehold::{ErrorKind, Lost};

use crate::answered;
use crate::redlock::scene::{ALWAYS, LONG, Scene, within};

/// Short, for a node is admitted when the locks that it forgot have expired.
const OPTIONS: &str = "ttl=2s";
const EVERYSEC: &[&str] = &["--appendonly", "yes", "--appendfsync", "everysec"];

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

/// Lets in whoever needs nobody's word, as sessions do.
async fn settle(scene: &Scene) {
    let (url, nodes) = (scene.url(OPTIONS), [scene.node(0)]);
    let admitted = answered(|| admit(&url, &nodes)).await;
    assert!(admitted.is_empty());
}

/// Locks and gives back once; says the token and on how many nodes it was.
async fn lock_once(scene: &Scene) -> (u64, usize) {
    let session = scene.session(OPTIONS).await;
    let guard = session.mutex("ledger").lock_within(LONG).await.unwrap();
    let token = guard.token().get();
    // The last nodes may still be doing it.
    let mut on = scene.count("ledger");
    for _ in 0..20 {
        tokio::task::yield_now().await;
        on = on.max(scene.count("ledger"));
    }
    // A busy machine may have lost it.
    let _ = guard.release().await;
    session.close().await;
    (token, on)
}

/// Locks and gives back until it was on all nodes; says that token.
async fn lock_on_all(scene: &Scene) -> u64 {
    let locking = async {
        loop {
            let (token, on) = lock_once(scene).await;
            if on == scene.fleet.servers.len() {
                return token;
            }
        }
    };
    within("be on all nodes", locking).await
}

#[testbed::test]
async fn a_node_that_restarted_empty_does_not_vote_until_it_is_admitted() {
    let mut scene = Scene::start(3, &[]);
    let (before, _) = lock_once(&scene).await;
    scene.fleet.servers[1].restart();
    let (without, on) = lock_once(&scene).await;
    assert!(without > before);
    assert_eq!(on, 2);
    come_to(&scene, &[Standing::Good, Standing::Empty, Standing::Good]).await;
    let nodes = [scene.node(1)];
    let admitted = admit(&scene.url(OPTIONS), &nodes).await.unwrap();
    assert_eq!(admitted.len(), 1);
    assert_eq!(admitted[0].node, nodes[0]);
    assert!(admitted[0].floor.unwrap() > without + (1 << 20), "it jumps");
    come_to(&scene, &[const { Standing::Good }; 3]).await;
    let after = lock_on_all(&scene).await;
    assert!(after > admitted[0].floor.unwrap());
    // Once more changes nothing.
    assert!(admit(&scene.url(OPTIONS), &nodes).await.unwrap().is_empty());
}

#[testbed::test]
async fn a_node_that_may_have_lost_a_second_is_in_quarantine() {
    let mut scene = Scene::start(3, EVERYSEC);
    let (before, _) = lock_once(&scene).await;
    scene.fleet.servers[1].restart();
    // A session that meets it does not let it in.
    let (without, on) = lock_once(&scene).await;
    assert!(without > before);
    assert_eq!(on, 2);
    settle(&scene).await;
    assert_ne!(standings(&scene).await[1], Standing::Good);
    let admitted = admit(&scene.url(OPTIONS), &[]).await.unwrap();
    assert_eq!(admitted.len(), 1);
    assert!(lock_once(&scene).await.0 > admitted[0].floor.unwrap());
}

#[testbed::test]
async fn a_node_that_keeps_everything_comes_back_by_itself() {
    let mut scene = Scene::start(3, ALWAYS);
    let stati = status(&scene.url(OPTIONS)).await.unwrap();
    assert!(stati.iter().all(|status| status.keeps));
    let (before, _) = lock_once(&scene).await;
    scene.fleet.servers[1].restart();
    come_to(
        &scene,
        &[Standing::Good, Standing::Quarantined, Standing::Good],
    )
    .await;
    // Whoever meets it lets it in.
    let let_in = async {
        while standings(&scene).await[1] != Standing::Good {
            let session = scene.session(OPTIONS).await;
            let guard = session.mutex("ledger").lock_within(LONG).await.unwrap();
            guard.release().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within("be let in", let_in).await;
    let after = lock_on_all(&scene).await;
    assert!(after > before);
    // All of them at once, too: whoever forgets nothing is no riddle.
    scene
        .fleet
        .servers
        .iter_mut()
        .for_each(|node| node.restart());
    assert!(lock_once(&scene).await.0 > after);
}

#[testbed::test]
async fn a_node_must_have_kept_everything_since_it_was_admitted() {
    // It keeps everything now and did not then.
    let mut scene = Scene::start(3, EVERYSEC);
    lock_once(&scene).await;
    scene.fleet.servers[1].restart();
    scene.fleet.servers[1].command(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_eq!(lock_once(&scene).await.1, 2);
    settle(&scene).await;
    assert_ne!(standings(&scene).await[1], Standing::Good);
    // It did then and does not now.
    let mut scene = Scene::start(3, ALWAYS);
    lock_once(&scene).await;
    scene.fleet.servers[1].restart();
    scene.fleet.servers[1].command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    assert_eq!(lock_once(&scene).await.1, 2);
    settle(&scene).await;
    come_to(
        &scene,
        &[Standing::Good, Standing::Quarantined, Standing::Good],
    )
    .await;
}

#[testbed::test]
async fn a_node_is_not_admitted_if_too_few_others_know() {
    let mut scene = Scene::start(5, &[]);
    let url = scene.url(OPTIONS);
    lock_once(&scene).await;
    scene.fleet.servers[..2]
        .iter_mut()
        .for_each(|node| node.restart());
    scene.fleet.servers[2].kill();
    // Two others are left, and three are needed.
    let error = admit(&url, &[scene.node(0)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("3 other nodes"), "{error}");
    let error = admit(&url, &[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    scene.fleet.servers[2].start_again();
    let error = admit(&url, &[]).await.unwrap_err();
    assert!(
        error.to_string().contains("too many nodes forgot"),
        "{error}"
    );
    let [empty, good] = [Standing::Empty, Standing::Good];
    let expected = [&empty, &empty, &empty, &good, &good].map(Clone::clone);
    come_to(&scene, &expected).await;
}

#[testbed::test]
async fn when_too_many_nodes_forgot_they_are_founded_anew_above_what_is_known() {
    let mut scene = Scene::start(5, &[]);
    let url = scene.url(OPTIONS);
    lock_once(&scene).await;
    // Tokens are ahead of the clock from here on.
    scene.fleet.servers[4].restart();
    admit(&url, &[]).await.unwrap();
    // A majority of three knows of this one, and all three forget.
    scene.fleet.servers[3..].iter().for_each(|node| node.stop());
    let session = scene.session(OPTIONS).await;
    let guard = session.mutex("ledger").lock_within(LONG).await.unwrap();
    let before = guard.token().get();
    drop((guard, session));
    scene.fleet.servers[3..]
        .iter()
        .for_each(|node| node.resume());
    scene.fleet.servers[..3]
        .iter_mut()
        .for_each(|node| node.restart());
    admit(&url, &[]).await.unwrap_err();
    // What the page says.
    scene.tell_all(&["HDEL", "lh:redlock", "run"]);
    assert!(lock_once(&scene).await.0 > before);
    come_to(&scene, &[const { Standing::Good }; 5]).await;
}

#[testbed::test]
async fn all_that_restarted_are_admitted_one_after_the_other() {
    let mut scene = Scene::start(5, &[]);
    let (before, _) = lock_once(&scene).await;
    scene.fleet.servers[3..]
        .iter_mut()
        .for_each(|node| node.restart());
    let admitted = admit(&scene.url(OPTIONS), &[]).await.unwrap();
    let nodes: Vec<_> = admitted
        .iter()
        .map(|admitted| admitted.node.clone())
        .collect();
    assert_eq!(nodes, [scene.node(3), scene.node(4)]);
    assert!(admitted[1].floor > admitted[0].floor);
    let after = lock_on_all(&scene).await;
    assert!(after > admitted[1].floor.unwrap() && after > before);
}

#[testbed::test]
async fn admission_says_what_is_wrong_with_the_question() {
    let scene = Scene::start(3, &[]);
    lock_once(&scene).await;
    let error = admit(&scene.url(OPTIONS), &["10.9.9.9:1".into()]).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains(&scene.node(2)), "{error}");
    let error = admit(&scene.url("tokens=off"), &[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("tokens=off"), "{error}");
    let error = status(&scene.fleet.servers[0].url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[testbed::test]
async fn a_node_that_was_emptied_is_like_one_that_restarted() {
    let scene = Scene::start(3, &[]);
    let (before, _) = lock_once(&scene).await;
    scene.fleet.servers[0].command(&["FLUSHALL"]);
    come_to(&scene, &[Standing::Empty, Standing::Good, Standing::Good]).await;
    let (after, on) = lock_once(&scene).await;
    assert!(after > before);
    assert_eq!(on, 2);
    admit(&scene.url(OPTIONS), &[scene.node(0)]).await.unwrap();
    lock_on_all(&scene).await;
}

/// Two of three nodes forget a held lock, one after the other, without a restart.
/// Were they let in at once, another could be granted it.
#[testbed::test]
async fn a_node_is_let_in_when_what_it_forgot_cannot_be_held_any_more() {
    let scene = Scene::start(3, &[]);
    let (holder, other) = (scene.session("ttl=2s").await, scene.session("ttl=2s").await);
    let guard = holder.mutex("x").lock().await.unwrap();
    for number in [0, 1] {
        scene.fleet.servers[number].command(&["FLUSHALL"]);
        admit(&scene.url(""), &[]).await.unwrap();
    }
    let next = other.mutex("x").lock_within(LONG).await.unwrap();
    assert!(guard.check().is_err(), "two hold");
    assert!(next.token() > guard.token());
}

#[testbed::test]
async fn nodes_that_were_all_emptied_begin_anew_above_the_clock() {
    let scene = Scene::start(3, &[]);
    let session = scene.session("ttl=3s").await;
    let guard = session.mutex("ledger").lock().await.unwrap();
    scene.tell_all(&["FLUSHALL"]);
    let lost = within("be told", guard.lost()).await;
    assert!(matches!(lost, Lost::Gone | Lost::Deadline), "{lost:?}");
    let next = session.mutex("ledger").lock_within(LONG).await.unwrap();
    assert!(next.token() > guard.token());
    come_to(&scene, &[const { Standing::Good }; 3]).await;
}

#[testbed::test]
async fn without_tokens_a_node_that_forgets_votes_on() {
    let mut scene = Scene::start(3, &[]);
    let (ours, other) = (
        scene.session("ttl=60s&tokens=off").await,
        scene.session("ttl=60s&tokens=off").await,
    );
    let guard = ours.mutex("ledger").lock().await.unwrap();
    scene.fleet.servers[..2]
        .iter_mut()
        .for_each(|node| node.restart());
    // As the page says: two hold it.
    let second = other.mutex("ledger").lock_within(LONG).await.unwrap();
    assert_ne!(second.fence(), guard.fence());
}
