//! Their libraries among themselves: what our side relies on.

use std::pin::Pin;
use std::time::Instant;

use crate::interop::foreign::{Client, NEVER, SHORT};
use crate::pools::REDIS;

pub(crate) type Case = fn(Client) -> Pin<Box<dyn Future<Output = ()>>>;

pub(crate) const CASES: &[(&str, Case)] = &[
    ("counts_with_its_neighbour", |client| {
        Box::pin(counts(client))
    }),
    ("hands_over", |client| Box::pin(hands_over(client))),
    ("is_killed", |client| Box::pin(is_killed(client))),
];

async fn counts(client: Client) {
    const ROUNDS: u32 = 40;
    let (folder, server) = (tempfile::tempdir().unwrap(), REDIS.take());
    let file = folder.path().join("number");
    std::fs::write(&file, "0").unwrap();
    let counter = |client: Client| client.count(&server.url(), ROUNDS, &file);
    let counters = [counter(client), counter(client.neighbour())];
    for mut counter in counters {
        counter.expect(&format!("done {ROUNDS}")).await;
    }
    let number = std::fs::read_to_string(&file).unwrap();
    assert_eq!(number, (2 * ROUNDS).to_string());
}

async fn hands_over(client: Client) {
    let server = REDIS.take();
    let mut holder = client.hold(&server.url(), NEVER).await;
    let mut waiter = client.neighbour().wait(&server.url()).await;
    assert!(waiter.is_silent());
    holder.release().await;
    waiter.expect("got").await;
}

async fn is_killed(client: Client) {
    let server = REDIS.take();
    let then = Instant::now();
    let mut holder = client.hold(&server.url(), SHORT).await;
    holder.kill();
    let mut waiter = client.neighbour().wait(&server.url()).await;
    waiter.expect("got").await;
    assert!(then.elapsed() > SHORT, "before the end of its ttl");
}
