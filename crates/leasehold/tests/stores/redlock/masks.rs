//! Every subset of five nodes in trouble, of every kind: the lock is granted
//! exactly if a majority of the nodes is left, and nothing of ours stays on any.

use std::time::{Duration, Instant};

use super::scene::{ALWAYS, LONG, Scene};
use leasehold::{ErrorKind, Guard, Session};
use testbed::proxy::{Fault, Proxy};

const NODES: usize = 5;
const NAME: &str = "jobs/nightly";

/// Nothing is gone because its ttl is over: it is longer than any wait here.
const OPTIONS: &str = "ttl=60s&node_timeout=500ms";
const CLEAN_WITHIN: Duration = LONG;
/// Two rounds and the giving back, each within the limit of a node, would be a second and
/// a half; without that limit an attempt would last for a ttl.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

/// The subsets, each one node apart from the one before.
fn masks() -> impl Iterator<Item = [bool; NODES]> {
    (0..1_usize << NODES).map(|number| {
        let mask = number ^ (number >> 1);
        std::array::from_fn(|node| mask & (1 << node) != 0)
    })
}

/// How often a majority of the nodes was left, and how often it granted the lock at once.
#[derive(Default)]
struct Tally {
    grants: u32,
    at_once: u32,
}

impl Tally {
    /// Tries to lock while these nodes are in trouble, and again if a majority is left: a busy
    /// machine may answer too late for the limit of a node.
    async fn try_lock(&mut self, session: &Session, troubled: [bool; NODES]) -> Option<Guard> {
        let left = troubled.iter().filter(|troubled| !**troubled).count();
        let must_hold = left > NODES / 2;
        let deadline = Instant::now() + LONG;
        let mut is_first = true;
        loop {
            let asked = Instant::now();
            let tried = session.mutex(NAME).try_lock().await;
            assert!(asked.elapsed() < ENDS_WITHIN, "{troubled:?}");
            if let Ok(Some(guard)) = tried {
                assert!(must_hold, "granted by {left} nodes: {troubled:?}");
                self.grants += 1;
                self.at_once += u32::from(is_first);
                return Some(guard);
            }
            if !must_hold {
                if let Err(error) = tried {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                }
                return None;
            }
            is_first = false;
            assert!(Instant::now() < deadline, "{troubled:?}: {tried:?}");
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let Self { grants, at_once } = self;
        if !std::thread::panicking() {
            assert!(*at_once * 4 > *grants, "{at_once} of {grants} at once");
        }
    }
}

/// Tries to lock while these nodes are in trouble.
async fn is_granted_by_the_rest(
    tally: &mut Tally,
    session: &Session,
    scene: &Scene,
    troubled: [bool; NODES],
) {
    if let Some(guard) = tally.try_lock(session, troubled).await {
        let owners = (0..NODES).filter(|&node| !troubled[node]);
        let owners = owners.filter(|&node| scene.value(node, NAME).is_some());
        assert!(owners.count() > NODES / 2, "{troubled:?}");
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
}

/// Waits until no node has anything of ours.
async fn nothing_is_left(scene: &Scene, theirs: &str, troubled: [bool; NODES]) {
    let deadline = Instant::now() + CLEAN_WITHIN;
    let is_ours = |node: &usize| {
        scene
            .value(*node, NAME)
            .is_some_and(|value| value != theirs)
    };
    while let Some(node) = (0..NODES).find(is_ours) {
        assert!(
            Instant::now() < deadline,
            "{troubled:?}: left on node {node}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the session can lock with all of the nodes it needs.
async fn all_count_again(session: &Session, scene: &Scene) {
    let deadline = Instant::now() + CLEAN_WITHIN;
    loop {
        if let Ok(Some(guard)) = session.mutex(NAME).try_lock().await {
            let is_on_all = scene.count(NAME) == NODES;
            guard.release().await.unwrap();
            nothing_is_left(scene, "", [false; NODES]).await;
            if is_on_all {
                return;
            }
        }
        assert!(Instant::now() < deadline, "not all nodes count again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[testbed::test]
async fn nodes_that_are_down() {
    // Such nodes are back as soon as they have started.
    let mut scene = Scene::start(NODES, ALWAYS);
    let session = scene.session(OPTIONS).await;
    let mut down = [false; NODES];
    let mut tally = Tally::default();
    for mask in masks() {
        for node in 0..NODES {
            let server = &mut scene.fleet.servers[node];
            match (down[node], mask[node]) {
                (false, true) => server.kill(),
                (true, false) => server.start_again(),
                _ => {}
            }
        }
        let is_back = down != mask && mask.iter().zip(down).any(|(now, before)| !now && before);
        down = mask;
        if is_back {
            their_number_is(&session, &scene, down).await;
            is_clean_where_up(&scene, down).await;
        }
        is_granted_by_the_rest(&mut tally, &session, &scene, down).await;
        is_clean_where_up(&scene, down).await;
    }
}

async fn is_clean_where_up(scene: &Scene, down: [bool; NODES]) {
    let deadline = Instant::now() + CLEAN_WITHIN;
    for node in (0..NODES).filter(|&node| !down[node]) {
        while scene.value(node, NAME).is_some() {
            assert!(Instant::now() < deadline, "{down:?}: left on node {node}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Waits until all nodes that are up count, as the session finds out by itself.
async fn their_number_is(session: &Session, scene: &Scene, down: [bool; NODES]) {
    let deadline = Instant::now() + CLEAN_WITHIN;
    loop {
        // Whoever is asked and does not count is looked at.
        let guard = session.mutex(NAME).try_lock().await;
        if let Ok(Some(guard)) = guard {
            guard.release().await.unwrap();
        }
        let stati = leasehold::redlock::status(&scene.url(OPTIONS))
            .await
            .unwrap();
        let is_good = |status: &leasehold::redlock::NodeStatus| {
            status.standing == leasehold::redlock::Standing::Good
        };
        if stati
            .iter()
            .zip(down)
            .all(|(status, down)| down || is_good(status))
        {
            return;
        }
        assert!(Instant::now() < deadline, "{stati:?}");
    }
}

#[testbed::test]
async fn nodes_that_hang() {
    let scene = Scene::start(NODES, &[]);
    let session = scene.session(OPTIONS).await;
    let mut tally = Tally::default();
    for mask in masks() {
        let hanging = || {
            scene
                .fleet
                .servers
                .iter()
                .zip(mask)
                .filter(|(_, hangs)| *hangs)
        };
        hanging().for_each(|(server, _)| server.stop());
        try_while_others_hang(&mut tally, &session, mask).await;
        hanging().for_each(|(server, _)| server.resume());
        nothing_is_left(&scene, "", mask).await;
        all_count_again(&session, &scene).await;
    }
}

async fn try_while_others_hang(tally: &mut Tally, session: &Session, hangs: [bool; NODES]) {
    if let Some(guard) = tally.try_lock(session, hangs).await {
        guard.release().await.unwrap();
    }
}

#[testbed::test]
async fn nodes_that_another_has() {
    let scene = Scene::start(NODES, &[]);
    for options in [OPTIONS.to_owned(), format!("{OPTIONS}&tokens=off")] {
        let session = scene.session(&options).await;
        let mut tally = Tally::default();
        for mask in masks() {
            for (node, _) in mask.iter().enumerate().filter(|(_, taken)| **taken) {
                let set = ["SET", NAME, "theirs", "NX", "PX", "600000"];
                scene.fleet.servers[node].command(&set);
            }
            is_granted_by_the_rest(&mut tally, &session, &scene, mask).await;
            nothing_is_left(&scene, "theirs", mask).await;
            for (node, taken) in mask.into_iter().enumerate() {
                let value = scene.value(node, NAME);
                assert_eq!(value.as_deref(), taken.then_some("theirs"), "{mask:?}");
            }
            scene.tell_all(&["DEL", NAME]);
        }
    }
}

/// Nodes with a proxy before each.
async fn slow(delay: Duration, must_count: bool) {
    let scene = Scene::start(NODES, &[]);
    let mut proxies = Vec::new();
    for server in &scene.fleet.servers {
        proxies.push(Proxy::start(server.port()).await);
    }
    let places: Vec<_> = proxies.iter().map(Proxy::url).collect();
    let places = places.join(",").replace("redis://", "");
    let url = format!("redlock://{places}?{OPTIONS}");
    let session = leasehold::connect(&url).await.unwrap();
    let mut tally = Tally::default();
    for mask in masks() {
        for (proxy, is_slow) in proxies.iter().zip(mask) {
            proxy.always(is_slow.then_some(Fault::Delay(delay)));
        }
        match must_count {
            true => try_while_others_hang(&mut tally, &session, [false; NODES]).await,
            false => try_while_others_hang(&mut tally, &session, mask).await,
        }
        proxies.iter().for_each(|proxy| proxy.always(None));
        nothing_is_left(&scene, "", mask).await;
        all_count_again(&session, &scene).await;
    }
}

#[testbed::test]
async fn nodes_that_are_too_slow() {
    slow(Duration::from_millis(800), false).await;
}

#[testbed::test]
async fn nodes_that_are_slow_but_in_time() {
    slow(Duration::from_millis(15), true).await;
}
