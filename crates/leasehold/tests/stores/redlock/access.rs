//! What a user must be allowed on the nodes, as the page lists it.

use leasehold::redlock::{Standing, admit, status};
use leasehold::{Lost, Session};

use crate::redlock::scene::{LONG, Scene, until, within};

/// The commands in `docs/stores/redlock.md`.
const COMMANDS: &[&str] = &[
    "hello",
    "info",
    "time",
    "ping",
    "client|tracking",
    "client|caching",
    "subscribe",
    "unsubscribe",
    "publish",
    "evalsha",
    "script|load",
    "get",
    "mget",
    "set",
    "del",
    "pexpire",
    "pttl",
    "type",
    "exists",
    "scan",
    "hget",
    "hmget",
    "hset",
    "hsetnx",
    "hdel",
    "lpush",
    "ltrim",
    "lrange",
    "config|get",
];

/// Lets a user do all of this except for some.
fn add_user(scene: &Scene, without: &[&str]) -> String {
    let allowed = COMMANDS.iter().filter(|command| !without.contains(command));
    let allowed: Vec<_> = allowed.map(|command| format!("+{command}")).collect();
    let mut words = vec!["ACL", "SETUSER", "ann", "reset", "on", ">secret"];
    words.extend(["~lh:*", "~jobs/*", "&lh:inbox:*"]);
    words.extend(allowed.iter().map(String::as_str));
    scene.tell_all(&words);
    let places = (0..scene.fleet.servers.len()).map(|node| scene.node(node));
    let places: Vec<_> = places.map(|place| format!("ann:secret@{place}")).collect();
    format!("redlock://{}?ttl=20s", places.join(","))
}

/// Everything that sessions and operators do.
async fn use_it(url: &str, scene: &mut Scene) {
    let ours = leasehold::connect(url).await.unwrap();
    let theirs = leasehold::connect(url).await.unwrap();
    let first = ours.mutex("jobs/nightly").lock().await.unwrap();
    let waiting = wait_for(&theirs);
    let mut least = first.valid_for();
    until("be renewed", || {
        let is_renewed = first.valid_for() > least;
        least = first.valid_for();
        is_renewed
    })
    .await;
    assert_eq!(ours.inspector().names("jobs/").await.unwrap().len(), 1);
    first.release().await.unwrap();
    let second = within("be next", waiting).await.unwrap();
    let inspector = ours.inspector();
    assert_eq!(
        inspector
            .evict("jobs/nightly", "ann", "to see")
            .await
            .unwrap(),
        1
    );
    assert_eq!(within("be told", second.lost()).await, Lost::Evicted);
    inspector.examine().await.unwrap();
    scene.fleet.servers[0].command(&["FLUSHALL"]);
    assert_eq!(status(url).await.unwrap()[0].standing, Standing::Empty);
    admit(url, &[]).await.unwrap();
    assert_eq!(status(url).await.unwrap()[0].standing, Standing::Good);
    ours.close().await;
    theirs.close().await;
}

fn wait_for(session: &Session) -> tokio::task::JoinHandle<leasehold::Guard> {
    let mutex = session.mutex("jobs/nightly");
    tokio::spawn(async move { mutex.lock_within(LONG).await.unwrap() })
}

#[testbed::test]
async fn a_user_needs_what_the_page_lists() {
    let mut scene = Scene::start(3, &[]);
    let url = add_user(&scene, &[]);
    use_it(&url, &mut scene).await;
    // The nodes wrote down what they refused.
    for node in &scene.fleet.servers {
        let refused = node.tell("ACL LOG");
        assert!(!refused.contains("command"), "{refused}");
    }
}

#[testbed::test]
async fn whoever_may_not_be_told_of_changes_asks() {
    let mut scene = Scene::start(3, &[]);
    let url = add_user(&scene, &["client|tracking", "client|caching", "config|get"]);
    use_it(&url, &mut scene).await;
}
