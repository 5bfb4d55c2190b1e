//! Our sessions and their libraries on one lock, both ways.

use std::path::Path;
use std::time::{Duration, Instant};

use leasehold::Session;
use leasehold::conformance::Bench;
use tokio::task::JoinSet;

use crate::interop::foreign::{Client, KEY, NEVER, SHORT, SOON};
use crate::interop::theirs::Case;
use crate::pools::REDIS;
use testbed::proxy::Proxy;

pub(crate) const CASES: &[(&str, Case)] = &[
    ("we_count_together", |client| Box::pin(count(client))),
    ("they_release_and_we_get_it", |client| {
        Box::pin(they_release(client))
    }),
    ("we_release_and_they_get_it", |client| {
        Box::pin(we_release(client))
    }),
    ("they_are_killed_and_we_get_it", |client| {
        Box::pin(they_are_killed(client))
    }),
    ("we_are_killed_and_they_get_it", |client| {
        Box::pin(we_are_killed(client))
    }),
];

async fn count(client: Client) {
    const ROUNDS: u32 = 40;
    const EACH: u32 = 2;
    let (folder, server) = (tempfile::tempdir().unwrap(), REDIS.take());
    let file = folder.path().join("number");
    std::fs::write(&file, "0").unwrap();
    let mut theirs = Vec::new();
    for _ in 0..EACH {
        theirs.push(client.count(&server.url(), ROUNDS, &file));
    }
    let mut ours = JoinSet::new();
    for _ in 0..EACH {
        let (session, file) = (session(&server.url(), client, NEVER).await, file.clone());
        ours.spawn(async move { count_up(&session, ROUNDS, &file).await });
    }
    let ours = tokio::time::timeout(2 * SOON, ours.join_all()).await;
    ours.expect("we are not starved");
    for mut counter in theirs {
        counter.expect(&format!("done {ROUNDS}")).await;
    }
    let number = std::fs::read_to_string(&file).unwrap();
    assert_eq!(number, (2 * EACH * ROUNDS).to_string());
}

async fn count_up(session: &Session, rounds: u32, file: &Path) {
    for _ in 0..rounds {
        let guard = session.mutex(KEY).lock().await.unwrap();
        let number: u32 = std::fs::read_to_string(file).unwrap().parse().unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::fs::write(file, (number + 1).to_string()).unwrap();
        guard.release().await.unwrap();
    }
}

async fn they_release(client: Client) {
    let server = REDIS.take();
    let mut theirs = client.hold(&server.url(), NEVER).await;
    // It shows when we have asked; before that, a release would be no hand-over.
    let proxy = Proxy::start(server.port()).await;
    let session = session(&proxy.url(), client, NEVER).await;
    let mutex = session.mutex(KEY);
    assert!(mutex.try_lock().await.unwrap().is_none(), "they hold it");
    let sent = proxy.log().len();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    let asked = async {
        while proxy.log().len() == sent {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, asked).await.expect("we ask");
    assert!(!waiting.is_finished());
    theirs.begin_release();
    let guard = tokio::time::timeout(SOON, waiting).await;
    let guard = guard.expect("long before their ttl").unwrap().unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
}

async fn we_release(client: Client) {
    let server = REDIS.take();
    let session = session(&server.url(), client, NEVER).await;
    let guard = session.mutex(KEY).lock().await.unwrap();
    let mut theirs = client.wait(&server.url()).await;
    assert!(theirs.is_silent());
    guard.release().await.unwrap();
    theirs.expect("got").await;
}

async fn they_are_killed(client: Client) {
    let server = REDIS.take();
    let mut theirs = client.hold(&server.url(), SHORT).await;
    theirs.kill();
    let session = session(&server.url(), client, NEVER).await;
    let guard = tokio::time::timeout(SOON, session.mutex(KEY).lock()).await;
    let guard = guard.expect("after their ttl").unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
}

async fn we_are_killed(client: Client) {
    let server = REDIS.take();
    let url = format!("{}?layout={}", server.url(), client.layout());
    let bench = Bench::new(&url).await.unwrap();
    let mut ours = bench.peer(SHORT).await;
    let answer = ours.ask(&format!("lock {KEY}")).await;
    assert!(answer.starts_with("held"), "{answer}");
    let mut theirs = client.wait(&server.url()).await;
    // A live holder renews, so they stay out for longer than our ttl.
    let begin = Instant::now();
    while begin.elapsed() < SHORT + SHORT / 2 {
        assert!(theirs.is_silent(), "we hold it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ours.kill();
    theirs.expect("got").await;
}

async fn session(url: &str, client: Client, ttl: Duration) -> Session {
    let (layout, ttl) = (client.layout(), ttl.as_secs());
    let url = format!("{url}?layout={layout}&ttl={ttl}s");
    leasehold::connect(&url).await.unwrap()
}
