//! Servers that are not fit for locks, or not now: one clear line, the right
//! kind of error, and nothing lost.

use std::time::{Duration, Instant};

use leasehold::{Error, ErrorKind, Lost, Session};

use crate::steps::{LONG, answered, queue_of, renewed};
use testbed::redis::{RedisServer, Replicated, Version};

async fn refused(url: &str) -> Error {
    let error = leasehold::connect(url).await.unwrap_err();
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

async fn session(server: &RedisServer, options: &str) -> Session {
    leasehold::connect(&format!("{}?{options}", server.url()))
        .await
        .unwrap()
}

#[testbed::test]
async fn a_replica_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Replicated::start(folder.path(), 1, &[]);
    let error = refused(&servers.replicas()[0].url()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("read-only replica"), "{error}");
}

#[testbed::test]
async fn a_master_that_becomes_a_replica_gives_no_locks() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    let ours = session(&server, "ttl=20s&patience=1s").await;
    let guard = ours.mutex("ledger").lock().await.unwrap();
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = ours.mutex("other").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("replica"), "{error}");
    server.command(&["REPLICAOF", "NO", "ONE"]);
    ours.mutex("other")
        .lock_within(LONG)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    drop(guard);
}

#[testbed::test]
async fn a_master_that_becomes_a_replica_tells_no_memos() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    let ours = session(&server, "ttl=20s&patience=1s").await;
    let guard = ours.mutex("ledger").lock().await.unwrap();
    guard.write_memo("what was").await.unwrap();
    guard.release().await.unwrap();
    // It has no claim, so nothing else it does is a write.
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = ours.memo("ledger").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("replica"), "{error}");
    server.command(&["REPLICAOF", "NO", "ONE"]);
    let memo = answered(|| ours.memo("ledger")).await.memo.unwrap();
    assert_eq!(memo.text(), "what was");
}

#[testbed::test]
async fn a_full_server_says_so_and_keeps_what_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    let ours = session(&server, "ttl=30s&patience=1s").await;
    let guard = ours.mutex("ledger").lock().await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = ours.mutex("other").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("out of memory"), "{error}");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    guard.check().unwrap();
    guard.release().await.unwrap();
    let again = ours.mutex("other").lock_within(LONG).await.unwrap();
    again.release().await.unwrap();
}

#[testbed::test]
async fn a_server_that_loads_its_data_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    // A delay per key, in microseconds: it loads for seconds.
    let options = ["--appendonly", "yes", "--key-load-delay", "600"];
    let mut server = RedisServer::start(folder.path(), &options);
    let fill = "for i = 1, 15000 do redis.call('SET', 'key' .. i, i) end";
    server.command(&["EVAL", fill, "0"]);
    let ours = session(&server, "ttl=60s").await;
    let guard = ours.mutex("ledger").lock().await.unwrap();
    server.restart_loading();
    let error = refused(&server.url()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("still loading"), "{error}");
    // The log has the claim; once it is read the hold goes on.
    let busy = ours.inspector();
    let seen = tokio::time::timeout(LONG, async {
        loop {
            match busy.queue("ledger").await {
                Ok(queue) => return queue.claims.len(),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    assert_eq!(seen.await.unwrap(), 1);
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_server_that_sleeps_for_less_than_a_ttl_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    let (ours, other) = (
        session(&server, "ttl=20s").await,
        session(&server, "ttl=20s").await,
    );
    let guard = ours.mutex("ledger").lock().await.unwrap();
    let mutex = other.mutex("ledger");
    let waiting = tokio::spawn(async move { mutex.lock_within(LONG).await });
    // A renewal comes meanwhile.
    server.stop();
    tokio::time::sleep(Duration::from_secs(8)).await;
    server.resume();
    renewed(&guard, 1).await;
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().token() > token);
}

#[testbed::test(timed)]
async fn a_holder_of_a_server_that_hangs_is_told_before_another_can_hold() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    let ours = session(&server, "ttl=4s").await;
    let guard = ours.mutex("ledger").lock().await.unwrap();
    server.stop();
    let stopped = Instant::now();
    let lost = tokio::time::timeout(LONG, guard.lost()).await.unwrap();
    // The server could grant it to another no earlier than this.
    assert!(stopped.elapsed() < Duration::from_secs(4));
    server.resume();
    assert_eq!(lost, Lost::Deadline);
    let next = ours.mutex("ledger").lock_within(LONG).await.unwrap();
    assert!(next.token() > guard.token());
}

#[testbed::test]
async fn a_restart_without_a_log_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = RedisServer::start(folder.path(), &[]);
    let ours = session(&server, "ttl=1h").await;
    let guard = ours.mutex("ledger").lock().await.unwrap();
    server.restart();
    let lost = tokio::time::timeout(LONG, guard.lost()).await.unwrap();
    assert_eq!(lost, Lost::Gone);
    let next = ours.mutex("ledger").lock_within(LONG).await.unwrap();
    assert!(next.token() > guard.token());
}

#[testbed::test]
async fn a_server_older_than_we_support_is_named_with_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start_version(Version::Redis5, folder.path(), &[]);
    let error = refused(&server.url()).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("6.2 or newer"), "{error}");
}

#[testbed::test]
async fn the_oldest_and_the_newest_servers_lock() {
    for version in [Version::Redis6, Version::Valkey9] {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start_version(version, folder.path(), &[]);
        let (ours, other) = (
            session(&server, "ttl=20s").await,
            session(&server, "ttl=20s").await,
        );
        let guard = ours.mutex("ledger").lock().await.unwrap();
        let mutex = other.mutex("ledger");
        let waiting = tokio::spawn(async move { mutex.lock_within(LONG).await });
        queue_of(&ours.inspector(), "ledger", 2).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[testbed::test]
async fn a_server_with_waitaof_confirms_what_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--appendonly", "yes"];
    let server = RedisServer::start_version(Version::Valkey9, folder.path(), &options);
    let ours = session(&server, "ttl=20s&durability=fsync").await;
    let guard = ours.mutex("ledger").lock().await.unwrap();
    let calls = server.tell("INFO commandstats");
    assert!(calls.contains("cmdstat_waitaof"), "{calls}");
    guard.release().await.unwrap();
}
