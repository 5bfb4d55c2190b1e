//! What lies in the store, node by node.

use leasehold::{ErrorKind, Session};

use super::{ONE, ensemble_with, inspector, lock, only_child, session};
use testbed::wait_for;

/// A sequence number as Curator and kazoo read it.
fn is_numbered(node: &str, marker: &str) -> bool {
    let number = node.rsplit_once(marker).map(|(_, number)| number);
    number.is_some_and(|number| {
        number.len() == 10 && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[testbed::test]
async fn a_mutex_has_curators_nodes_and_its_token_is_the_transaction() {
    let zookeeper = ONE.take();
    let mut client = zookeeper.client();
    let one = session(&zookeeper.url(), "ttl=20s").await;
    let guard = lock(&one, "jobs/nightly").await;
    let node = only_child(&mut client, "/jobs/nightly");
    let name = node.rsplit('/').next().unwrap();
    assert!(is_numbered(name, "-lock-"), "{name}");
    let id = name
        .strip_prefix("_c_")
        .unwrap()
        .rsplit_once("-lock-")
        .unwrap();
    let lengths: Vec<_> = id.0.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{name}");
    let (czxid, owner) = client.stat(&node).unwrap();
    assert_eq!(guard.token().get(), czxid.unsigned_abs());
    assert_ne!(owner, 0, "it goes with the session");
    guard.release().await.unwrap();
    assert!(client.children("/jobs/nightly").unwrap().is_empty());
}

#[testbed::test]
async fn the_server_cleans_up_behind_us_and_tokens_go_on_growing() {
    let (_folder, zookeeper) = ensemble_with(1, &["-Dznode.container.checkIntervalMs=100"]);
    let mut client = zookeeper.client();
    let one = session(&zookeeper.url(), "ttl=20s").await;
    let mut last = None;
    for _ in 0..3 {
        let guard = lock(&one, "jobs/nightly").await;
        assert!(last < Some(guard.token()));
        last = Some(guard.token());
        // The counter starts again each time.
        let node = only_child(&mut client, "/jobs/nightly");
        assert!(node.ends_with("-0000000000"), "{node}");
        guard.release().await.unwrap();
        wait_for("the container to go", || client.stat("/jobs").err());
    }
}

#[testbed::test]
async fn the_server_cleans_up_behind_a_reader_without_a_lock() {
    let (_folder, zookeeper) = ensemble_with(1, &["-Dznode.container.checkIntervalMs=100"]);
    let mut client = zookeeper.client();
    let one = session(&zookeeper.url(), "ttl=20s").await;
    let prices = one.rwlock("shop/prices");
    let stamp = prices.stamp().await.unwrap();
    wait_for("the containers to go", || client.stat("/shop").err());
    assert!(!prices.validate(&stamp).await.unwrap());
    wait_for("the containers to go", || client.stat("/shop").err());
}

#[testbed::test]
async fn kazoos_layout_has_kazoos_nodes() {
    let zookeeper = ONE.take();
    let mut client = zookeeper.client();
    let one = session(&zookeeper.url(), "layout=kazoo").await;
    let guard = lock(&one, "ledger").await;
    let node = only_child(&mut client, "/ledger");
    assert!(is_numbered(&node, "__lock__"), "{node}");
    let id = node.strip_prefix("/ledger/").unwrap();
    assert_eq!(id.find("__lock__"), Some(32), "{id}");
    assert_eq!(client.stat("/ledger").unwrap().1, 0, "a plain node");
    guard.release().await.unwrap();
    let reader = one.rwlock("book").read().await.unwrap();
    assert!(is_numbered(&only_child(&mut client, "/book"), "__rlock__"));
    reader.release().await.unwrap();
    let writer = one.rwlock("book").write().await.unwrap();
    assert!(is_numbered(&only_child(&mut client, "/book"), "__lock__"));
    writer.release().await.unwrap();
}

#[testbed::test]
async fn readers_and_writers_have_curators_nodes() {
    let zookeeper = ONE.take();
    let mut client = zookeeper.client();
    let one = session(&zookeeper.url(), "ttl=20s").await;
    let reader = one.rwlock("book").read().await.unwrap();
    assert!(is_numbered(&only_child(&mut client, "/book"), "-__READ__"));
    reader.release().await.unwrap();
    let writer = one.rwlock("book").write().await.unwrap();
    assert!(is_numbered(&only_child(&mut client, "/book"), "-__WRIT__"));
    writer.release().await.unwrap();
}

#[testbed::test]
async fn a_chroot_is_above_everything() {
    let zookeeper = ONE.take();
    let mut client = zookeeper.client();
    client.create("/app", 0).unwrap();
    let url = format!("{}/app", zookeeper.url());
    let one = session(&url, "").await;
    let guard = lock(&one, "a/b").await;
    only_child(&mut client, "/app/a/b");
    let names = inspector(&url).await.names("").await.unwrap();
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["a/b"]);
    guard.release().await.unwrap();
}

async fn why_not(session: &Session, name: &str) -> (ErrorKind, String) {
    let error = session.mutex(name).lock().await.unwrap_err();
    (error.kind(), error.to_string())
}

#[testbed::test]
async fn another_dialect_is_refused_and_named_and_nothing_of_ours_is_left() {
    let zookeeper = ONE.take();
    let mut client = zookeeper.client();
    let (curator, kazoo) = (
        session(&zookeeper.url(), "").await,
        session(&zookeeper.url(), "layout=kazoo").await,
    );
    client.create("/ledger", 0).unwrap();
    let theirs = client.create("/ledger/ab__lock__", 3).unwrap();
    let (kind, why) = why_not(&curator, "ledger").await;
    assert_eq!(kind, ErrorKind::Conflict);
    let node = theirs.rsplit('/').next().unwrap();
    assert!(
        why.contains("mixed dialects") && why.contains(node),
        "{why}"
    );
    let error = curator.mutex("ledger").try_lock().await.unwrap_err();
    assert!(error.to_string().contains("mixed dialects"), "{error}");
    assert_eq!(only_child(&mut client, "/ledger"), theirs);
    client.delete(&theirs).unwrap();
    let guard = lock(&curator, "ledger").await;
    let (kind, why) = why_not(&kazoo, "ledger").await;
    assert_eq!(kind, ErrorKind::Conflict);
    assert!(why.contains("-lock-"), "{why}");
    guard.check().unwrap();
    guard.release().await.unwrap();
}
