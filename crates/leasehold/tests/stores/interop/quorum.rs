//! Our Redlock and theirs on the same nodes, with tokens and without, both ways.
//! Ours are processes too.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use leasehold::conformance::{Bench, Peer};
use tokio::task::JoinSet;

use crate::interop::foreign::{Client, KEY, NEVER, SHORT, SOON};
use testbed::redis::{Fleet, RedisServer};

type Case = fn(Client, &'static str, usize) -> Pin<Box<dyn Future<Output = ()>>>;

/// How ours is set, and on how many nodes.
pub(crate) const SETTINGS: [(&str, usize); 2] = [("tokens=off", 5), ("tokens=on", 3)];

pub(crate) const CASES: &[(&str, Case)] = &[
    ("we_count_together", |client, setting, nodes| {
        Box::pin(count(client, setting, nodes))
    }),
    ("they_release_and_we_get_it", |client, setting, nodes| {
        Box::pin(they_release(client, setting, nodes))
    }),
    ("we_release_and_they_get_it", |client, setting, nodes| {
        Box::pin(we_release(client, setting, nodes))
    }),
    ("they_are_killed_and_we_get_it", |client, setting, nodes| {
        Box::pin(they_are_killed(client, setting, nodes))
    }),
    ("we_are_killed_and_they_get_it", |client, setting, nodes| {
        Box::pin(we_are_killed(client, setting, nodes))
    }),
];

/// The nodes, and how each side is told of them.
struct Scene {
    folder: tempfile::TempDir,
    bench: Bench,
    urls: String,
    _fleet: Fleet,
}

impl Scene {
    async fn new(setting: &str, nodes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fleet = Fleet::start(folder.path(), nodes);
        let bench = Bench::new(&format!("{}?{setting}", fleet.url())).await;
        let urls: Vec<_> = fleet.servers.iter().map(RedisServer::url).collect();
        Self {
            folder,
            bench: bench.unwrap(),
            urls: urls.join(","),
            _fleet: fleet,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("number")
    }
}

async fn count(client: Client, setting: &str, nodes: usize) {
    const ROUNDS: u32 = 30;
    const EACH: u32 = 2;
    let scene = Scene::new(setting, nodes).await;
    let file = scene.file();
    std::fs::write(&file, "0").unwrap();
    let mut theirs = Vec::new();
    for _ in 0..EACH {
        theirs.push(client.count(&scene.urls, ROUNDS, &file));
    }
    let mut ours = JoinSet::new();
    for _ in 0..EACH {
        let (peer, file) = (scene.bench.peer(NEVER).await, file.clone());
        ours.spawn(async move { count_up(peer, ROUNDS, &file).await });
    }
    let ours = tokio::time::timeout(2 * SOON, ours.join_all()).await;
    let tokens = ours.expect("we are not starved");
    for mut counter in theirs {
        counter.expect(&format!("done {ROUNDS}")).await;
    }
    let number = std::fs::read_to_string(&file).unwrap();
    assert_eq!(number, (2 * EACH * ROUNDS).to_string());
    if setting == "tokens=on" {
        let mut tokens = tokens.concat();
        tokens.sort_by_key(|(number, _)| *number);
        let grows = tokens.windows(2).all(|pair| pair[0].1 < pair[1].1);
        assert!(grows, "in the order of our grants: {tokens:?}");
    }
}

/// Counts, and says under which token each number was written.
async fn count_up(mut peer: Peer, rounds: u32, file: &Path) -> Vec<(u32, u64)> {
    let mut written = Vec::new();
    for _ in 0..rounds {
        let token = peer.granted(&format!("lock {KEY}")).await;
        let number: u32 = std::fs::read_to_string(file).unwrap().parse().unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::fs::write(file, (number + 1).to_string()).unwrap();
        written.push((number + 1, token));
        assert_eq!(peer.ask("release").await, "ok");
    }
    written
}

async fn they_release(client: Client, setting: &str, nodes: usize) {
    let scene = Scene::new(setting, nodes).await;
    let mut theirs = client.hold(&scene.urls, NEVER).await;
    let mut ours = scene.bench.peer(NEVER).await;
    assert_eq!(ours.ask(&format!("try {KEY}")).await, "busy");
    ours.tell(&format!("lock {KEY}"));
    theirs.begin_release();
    let grant = tokio::time::timeout(SOON, ours.grant()).await;
    grant.expect("long before their ttl");
    assert_eq!(ours.ask("check").await, "held");
}

async fn we_release(client: Client, setting: &str, nodes: usize) {
    let scene = Scene::new(setting, nodes).await;
    let mut ours = scene.bench.peer(NEVER).await;
    ours.granted(&format!("lock {KEY}")).await;
    let mut theirs = client.wait(&scene.urls).await;
    assert!(theirs.is_silent());
    assert_eq!(ours.ask("release").await, "ok");
    theirs.expect("got").await;
}

async fn they_are_killed(client: Client, setting: &str, nodes: usize) {
    let scene = Scene::new(setting, nodes).await;
    let mut theirs = client.hold(&scene.urls, SHORT).await;
    theirs.kill();
    let mut ours = scene.bench.peer(NEVER).await;
    ours.tell(&format!("lock {KEY}"));
    let grant = tokio::time::timeout(SOON, ours.grant()).await;
    grant.expect("after their ttl");
}

async fn we_are_killed(client: Client, setting: &str, nodes: usize) {
    let scene = Scene::new(setting, nodes).await;
    let mut ours = scene.bench.peer(SHORT).await;
    ours.granted(&format!("lock {KEY}")).await;
    let mut theirs = client.wait(&scene.urls).await;
    // A live holder renews, so they stay out for longer than our ttl.
    let begin = Instant::now();
    while begin.elapsed() < SHORT + SHORT / 2 {
        assert!(theirs.is_silent(), "we hold it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ours.kill();
    theirs.expect("got").await;
}
