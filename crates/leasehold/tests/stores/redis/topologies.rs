//! Locks on Redis servers that are not alone: Sentinel, Cluster, replicas; and
//! behind TLS and socket files.

use std::time::{Duration, Instant};

use crate::steps::{LONG, answered, inspector, lock, lost, queue_of, session, try_lock};
use leasehold::{ErrorKind, Guard, Lost};
use testbed::redis::{Cluster, RedisServer, Replicated, Sentinel};
use testbed::tls::Certificates;

#[testbed::test]
async fn a_hold_that_replicas_confirmed_survives_a_failover() {
    let folder = tempfile::tempdir().unwrap();
    let mut sentinel = Sentinel::start(folder.path(), &[]);
    let options = "ttl=20s&durability=replicas:2";
    let ours = session(&sentinel.url(), options).await;
    let other = session(&sentinel.url(), options).await;
    let guard = lock(&ours, "ledger").await;
    sentinel.kill_primary();
    sentinel.wait_for_new_primary();
    // One of two replicas is the primary now, so one is all there is.
    let newcomer = session(&sentinel.url(), "ttl=20s").await;
    assert!(try_lock(&newcomer, "ledger").await.is_none());
    guard.check().unwrap();
    let token = guard.token();
    sentinel.restart_killed();
    guard.release().await.unwrap();
    let next = lock(&other, "ledger").await;
    assert!(next.token() > token);
}

#[testbed::test]
async fn a_hold_that_a_failover_forgot_is_lost_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut sentinel = Sentinel::start(folder.path(), &[]);
    let ours = session(&sentinel.url(), "ttl=1h").await;
    // The replicas do not hear of the lock: they stand still, and what was sent
    // to them meanwhile is cut off with the primary.
    let primary = sentinel.primary_port();
    let replicas = || {
        sentinel
            .servers()
            .iter()
            .filter(|one| one.port() != primary)
    };
    replicas().for_each(RedisServer::stop);
    sentinel
        .primary()
        .command(&["CONFIG", "SET", "repl-backlog-size", "16kb"]);
    sentinel
        .primary()
        .command(&["CLIENT", "KILL", "TYPE", "replica"]);
    let guard = lock(&ours, "ledger").await;
    guard.check().unwrap();
    sentinel.kill_primary();
    let replicas = sentinel
        .servers()
        .iter()
        .filter(|one| one.port() != primary);
    replicas.for_each(RedisServer::resume);
    let started = Instant::now();
    assert_eq!(lost(&guard).await, Lost::Gone);
    assert!(started.elapsed() < LONG, "long before the ttl");
    let next = lock(&ours, "ledger").await;
    assert!(next.token() > guard.token(), "tokens go on by the clock");
}

#[testbed::test]
async fn a_master_that_was_replaced_while_it_stood_still_is_left_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let sentinel = Sentinel::start(folder.path(), &[]);
    // Nothing is asked of the server before the test is over.
    let ours = session(&sentinel.url(), "ttl=1h").await;
    let guard = lock(&ours, "ledger").await;
    let old = sentinel.primary_port();
    sentinel.primary().stop();
    sentinel.wait_for_other_primary(&[old]);
    let url = sentinel.url();
    let inspector = inspector(&url).await;
    inspector.evict("ledger", "operator", "test").await.unwrap();
    // Only the new master tells.
    assert_eq!(lost(&guard).await, Lost::Evicted);
}

#[testbed::test]
async fn a_lock_that_no_replica_confirms_is_not_given() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Replicated::start(folder.path(), 1, &[]);
    let ours = session(&servers.url(), "ttl=20s&durability=replicas:1").await;
    lock(&ours, "ledger").await.release().await.unwrap();
    servers.replicas()[0].stop();
    let mutex = ours.mutex("ledger");
    let error = mutex.lock_within(Duration::from_secs(6)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    servers.replicas()[0].resume();
    servers.wait_for_replicas(1);
    // What was asked for in vain is not left behind.
    lock(&ours, "ledger").await.release().await.unwrap();
}

#[testbed::test]
async fn nobody_leaves_a_barrier_by_the_word_of_a_master_without_its_witness() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Replicated::start(folder.path(), 1, &[]);
    let mut members = Vec::new();
    for _ in 0..2 {
        // It renews long after this test is over.
        let one = session(&servers.url(), "ttl=1h&durability=replicas:1").await;
        members.push(tokio::spawn(async move {
            let entered = one.barrier("load/test", 2).enter_within(LONG).await;
            (one, entered.unwrap())
        }));
    }
    let (_one, first) = members.remove(0).await.unwrap();
    let (_other, _second) = members.remove(0).await.unwrap();
    let inspector = inspector(&servers.url()).await;
    let leaving = tokio::spawn(first.leave());
    queue_of(&inspector, "load/test", 1).await;
    servers.replicas()[0].stop();
    // As one that was replaced and does not know who has come since.
    servers.primary().command(&["FLUSHALL"]);
    let looks = || {
        let stats = servers.primary().info("cmdstat_wait").unwrap_or_default();
        let calls = stats
            .strip_prefix("calls=")
            .and_then(|rest| rest.split_once(','));
        calls.map_or(0, |(calls, _)| calls.parse::<u32>().unwrap())
    };
    let before = looks();
    let deadline = Instant::now() + LONG;
    while looks() < before + 3 {
        assert!(Instant::now() < deadline, "it does not look");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!leaving.is_finished());
    // With its witness it is believed, whatever it says: that all is forgotten.
    servers.replicas()[0].resume();
    let left = tokio::time::timeout(LONG, leaving).await.expect("it looks");
    let error = left.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Lost::Gone));
}

#[testbed::test]
async fn a_confirmation_writes_over_no_key_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Replicated::start(folder.path(), 1, &[]);
    for layout in ["queue", "plain", "redisson"] {
        let options = format!("ttl=20s&durability=replicas:1&layout={layout}");
        let ours = session(&servers.url(), &options).await;
        let guard = lock(&ours, "ledger:w").await;
        let before = servers.primary().tell("GET ledger:w");
        let other = lock(&ours, "ledger").await;
        assert_eq!(servers.primary().tell("GET ledger:w"), before, "{layout}");
        other.release().await.unwrap();
        guard.release().await.unwrap();
    }
}

#[testbed::test]
async fn a_durability_that_the_server_lacks_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    let url = format!("{}?durability=fsync", server.url());
    let error = leasehold::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("append-only file"), "{error}");
    server.command(&["CONFIG", "SET", "appendonly", "yes"]);
    let version = server.info("redis_version").unwrap();
    if version.starts_with("7.0") {
        let error = leasehold::connect(&url).await.unwrap_err();
        assert!(error.to_string().contains("needs Redis 7.2"), "{error}");
    }
    server.command(&["CONFIG", "SET", "appendfsync", "always"]);
    let ours = leasehold::connect(&url).await.unwrap();
    lock(&ours, "ledger").await.release().await.unwrap();
}

#[testbed::test]
async fn a_cluster_locks_names_of_all_its_slots() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path());
    let ours = session(&cluster.url(), "ttl=20s").await;
    let mut guards = Vec::new();
    for number in 0..200 {
        guards.push(lock(&ours, &format!("job-{number}")).await);
    }
    // Renewed on every node: each lasts for longer than it would have at first.
    let ends = |guard: &Guard| Instant::now() + guard.valid_for();
    let first: Vec<_> = guards.iter().map(ends).collect();
    while let Some(guard) = first
        .iter()
        .zip(&guards)
        .find_map(|(first, guard)| (ends(guard) < *first + Duration::from_secs(1)).then_some(guard))
    {
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let other = session(&cluster.url(), "ttl=20s").await;
    let names = other.inspector().names("job-").await.unwrap();
    assert_eq!(names.len(), 200);
    let mutex = other.mutex("job-7");
    let waiting = tokio::spawn(async move { mutex.lock_within(LONG).await });
    guards.remove(7).release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
}

#[testbed::test]
async fn locks_move_with_their_slot() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path());
    let ours = session(&cluster.url(), "ttl=20s").await;
    let other = session(&cluster.url(), "ttl=20s").await;
    let slot = cluster.slot("lh:{ledger}");
    let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    let guard = lock(&ours, "ledger").await;
    let mutex = other.mutex("ledger");
    let waiting = tokio::spawn(async move { mutex.lock_within(LONG).await });
    let inspector = ours.inspector();
    queue_of(&inspector, "ledger", 2).await;
    // Whoever asks while the slot moves gets its answer after that.
    cluster.begin_move(slot, from, to);
    let looking = {
        let inspector = inspector.clone();
        tokio::spawn(async move { answered(|| inspector.queue("ledger")).await })
    };
    cluster.move_keys(slot, from, to);
    guard.check().unwrap();
    cluster.finish_move(slot, to);
    assert_eq!(looking.await.unwrap().claims.len(), 2);
    queue_of(&inspector, "ledger", 2).await;
    crate::renewed(&guard, 1).await;
    let token = guard.token();
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
}

/// Whatever forgets who is there forgets who went in as well.
#[testbed::test]
async fn nobody_leaves_a_barrier_by_the_word_of_a_master_that_forgot_who_is_inside() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path());
    // Nothing is renewed before this test is over.
    let a = session(&cluster.url(), "ttl=1h").await;
    let b = session(&cluster.url(), "ttl=1h").await;
    for name in ["x", "load/test", "other"] {
        let (one, other) = (a.barrier(name, 2), b.barrier(name, 2));
        let (one, _other) = tokio::try_join!(one.enter(), other.enter()).unwrap();
        let leaving = tokio::spawn(one.leave());
        queue_of(&a.inspector(), name, 1).await;
        let master = cluster.owner(cluster.slot(&format!("lh:{{{name}}}")));
        cluster.servers[master].command(&["FLUSHALL"]);
        let error = leaving.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost(Lost::Gone), "{error}");
    }
}

#[testbed::test]
async fn a_cluster_that_loses_a_master_goes_on_with_its_replica() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start_with_replicas(folder.path());
    let ours = session(&cluster.url(), "ttl=30s&durability=replicas:1").await;
    let slot = cluster.slot("lh:{ledger}");
    let owner = cluster.owner(slot);
    let guard = lock(&ours, "ledger").await;
    cluster.kill(owner);
    cluster.wait_for_new_owner(slot, owner);
    let newcomer = session(&cluster.url(), "ttl=30s").await;
    // The newcomer may come before all nodes know of the new master.
    assert!(try_lock(&newcomer, "ledger").await.is_none());
    guard.check().unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(lock(&newcomer, "ledger").await.token() > token);
}

#[testbed::test]
async fn a_master_that_hangs_does_not_hide_who_took_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_with_replicas(folder.path());
    let ours = session(&cluster.url(), "ttl=20s").await;
    // The one that would be asked first, if they were asked in turn.
    let masters = &cluster.servers[..3];
    let first = (0..3).min_by_key(|&number| masters[number].port().to_string());
    let names = (0..).map(|number| format!("ledger-{number}"));
    let mut names =
        names.filter(|name| Some(cluster.owner(cluster.slot(&format!("lh:{{{name}}}")))) == first);
    let name = names.next().unwrap();
    lock(&ours, &name).await.release().await.unwrap();
    masters[first.unwrap()].stop();
    lock(&ours, &name).await.release().await.unwrap();
}

#[testbed::test]
async fn tls_wants_the_right_authority_and_shows_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let right = Certificates::make(folder.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let wrong = Certificates::make(elsewhere.path());
    let server = RedisServer::start_tls(folder.path(), &right, true);
    let plain = RedisServer::start(elsewhere.path(), &[]);
    let url = |authority: &Certificates, client: &Certificates| {
        format!(
            "{}?ca={}&cert={}&key={}",
            server.url(),
            authority.authority.display(),
            client.client.display(),
            client.client_key.display()
        )
    };
    let ours = leasehold::connect(&url(&right, &right)).await.unwrap();
    lock(&ours, "ledger").await.release().await.unwrap();
    for bad in [
        url(&wrong, &right),
        url(&right, &wrong),
        server.url(),
        format!("{}?ca=/nowhere/ca.pem", server.url()),
        server.url().replace("rediss:", "redis:"),
        plain.url().replace("redis:", "rediss:"),
    ] {
        let error = leasehold::connect(&bad).await.unwrap_err();
        let text = error.to_string();
        assert!(!text.contains('\n') && text.len() < 300, "{text}");
        println!("{text}");
    }
}

#[testbed::test]
async fn a_socket_file_is_as_good_as_a_port() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start_unix(folder.path(), &[]);
    let ours = session(&server.url(), "db=3").await;
    let guard = lock(&ours, "ledger").await;
    let same = session(&server.url(), "db=3").await;
    assert!(try_lock(&same, "ledger").await.is_none());
    let another = session(&server.url(), "db=4").await;
    assert!(try_lock(&another, "ledger").await.is_some());
    guard.release().await.unwrap();
    let error = leasehold::connect("unix:/nowhere/redis.sock")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no such socket file"), "{error}");
}

#[testbed::test]
async fn a_url_for_another_kind_of_server_says_which_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let single = RedisServer::start(folder.path(), &[]);
    let clusters = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(clusters.path());
    let node = cluster.url().replace("redis+cluster:", "redis:");
    let node = node.split(',').next().unwrap().to_owned();
    let sentinels = tempfile::tempdir().unwrap();
    let sentinel = Sentinel::start(sentinels.path(), &[]);
    let watcher = sentinel.url().replace("redis+sentinel:", "redis:");
    let watcher = watcher.split(',').next().unwrap().to_owned();
    let unknown = sentinel.url().replace("mymaster", "nobody");
    for (url, part) in [
        (node, "write redis+cluster:"),
        (
            single.url().replace("redis:", "redis+cluster:"),
            "write redis:",
        ),
        (watcher, "write redis+sentinel:"),
        (
            format!("{}/main", single.url().replace("redis:", "redis+sentinel:")),
            "this is no sentinel",
        ),
        (unknown, "know no master \"nobody\""),
    ] {
        let error = leasehold::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}
