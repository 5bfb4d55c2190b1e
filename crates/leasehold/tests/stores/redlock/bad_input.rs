//! What cannot work is told in one clear line.

use leasehold::{Error, ErrorKind};

use crate::redlock::scene::{LONG, Scene};
use testbed::redis::{RedisServer, Replicated, Sentinel, Version};

async fn refused(url: &str) -> Error {
    let error = leasehold::connect(url).await.unwrap_err();
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

/// Two good nodes and this one.
async fn refused_among_good_ones(place: &str) -> Error {
    let scene = Scene::start(2, &[]);
    let place = place.replace("redis://", "");
    refused(&format!("{},{place}?ttl=5s", scene.fleet.url())).await
}

#[testbed::test]
async fn fewer_than_three_nodes_are_refused_unless_one_knows() {
    let error = refused("redlock://127.0.0.1:1,127.0.0.1:2").await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains("?i_know_this_is_not_ha"),
        "{error}"
    );
    let error = refused("redlock://127.0.0.1:1").await;
    assert_eq!(error.kind(), ErrorKind::Config);
    let error = refused("redlock://a:1,b:1,a:1").await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("named twice"), "{error}");
}

#[testbed::test]
async fn nodes_that_are_all_down_are_named() {
    let mut scene = Scene::start(3, &[]);
    scene.fleet.servers[1..]
        .iter_mut()
        .for_each(RedisServer::kill);
    let error = refused(&scene.url("ttl=5s")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error
            .to_string()
            .contains("1 of 3 nodes answer and 2 are needed"),
        "{error}"
    );
}

#[testbed::test]
async fn the_same_server_under_two_names_is_found_out() {
    let scene = Scene::start(2, &[]);
    let port = scene.fleet.servers[0].port();
    let url = format!("{},localhost:{port}", scene.fleet.url());
    let error = refused(&url).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("are the same server"), "{error}");
    let error = leasehold::redlock::status(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    // Two databases of one server fail together too.
    let url = format!("{},127.0.0.1:{port}/3", scene.fleet.url());
    let error = refused(&url).await;
    assert!(error.to_string().contains("are the same server"), "{error}");
}

#[testbed::test]
async fn a_replica_is_no_node() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Replicated::start(folder.path(), 1, &[]);
    let error = refused_among_good_ones(&servers.replicas()[0].url()).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("replica"), "{error}");
}

#[testbed::test]
async fn a_node_of_a_cluster_or_a_sentinel_is_no_node() {
    let folder = tempfile::tempdir().unwrap();
    let member = RedisServer::start(folder.path(), &["--cluster-enabled", "yes"]);
    let error = refused_among_good_ones(&member.url()).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("cluster"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let servers = Sentinel::start(folder.path(), &[]);
    let sentinels = servers.url();
    let sentinel = sentinels.trim_start_matches("redis+sentinel://");
    let sentinel = sentinel.split(',').next().unwrap();
    let error = refused_among_good_ones(sentinel).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("sentinel"), "{error}");
}

#[testbed::test]
async fn a_server_that_is_too_old_is_no_node() {
    let folder = tempfile::tempdir().unwrap();
    let old = RedisServer::start_version(Version::Redis5, folder.path(), &[]);
    let error = refused_among_good_ones(&old.url()).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("6.2 or newer"), "{error}");
}

#[testbed::test]
async fn nodes_of_different_versions_lock_together() {
    let scene = Scene::start(1, &[]);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let old = RedisServer::start_version(Version::Redis6, folders[0].path(), &[]);
    let new = RedisServer::start_version(Version::Valkey9, folders[1].path(), &[]);
    let others = format!("{},{}", old.url(), new.url());
    let url = format!("{},{others}?ttl=20s", scene.fleet.url());
    let session = leasehold::connect(&url).await.unwrap();
    let first = session.mutex("ledger").lock().await.unwrap();
    let token = first.token();
    first.release().await.unwrap();
    let second = session.mutex("ledger").lock_within(LONG).await.unwrap();
    assert!(second.token() > token);
}

#[testbed::test]
async fn a_wrong_password_for_one_node_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let closed = RedisServer::start(folder.path(), &["--requirepass", "right"]);
    let place = format!("127.0.0.1:{}", closed.port());
    let error = refused_among_good_ones(&format!(":wrong@{place}")).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains(&place), "{error}");
    assert!(!error.to_string().contains("wrong@"), "{error}");
    let error = refused_among_good_ones(&place).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[testbed::test]
async fn counters_that_are_used_up_are_told_and_nothing_is_left() {
    let scene = Scene::start(3, &[]);
    // Its floor is asked for when what the node forgot has expired.
    let session = scene.session("ttl=2s").await;
    let guard = session.mutex("ledger").lock().await.unwrap();
    guard.release().await.unwrap();
    // 32 tokens below 2^53 are one grant too many.
    scene.tell_all(&["HSET", "lh:redlock", "floor", "9007199254740960"]);
    let error = session.mutex("ledger").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("2^53"), "{error}");
    crate::redlock::scene::until("be clean", || scene.count("ledger") == 0).await;
    scene.fleet.servers[0].command(&["FLUSHALL"]);
    let error = leasehold::redlock::admit(&scene.url(""), &[]).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
    // Two grants before, there are two, of which the second is guessed.
    let scene = Scene::start(3, &[]);
    let session = scene.session("ttl=60s").await;
    scene.tell_all(&["HSET", "lh:redlock", "floor", "9007199254740927"]);
    for token in [9_007_199_254_740_928, 9_007_199_254_740_960] {
        let guard = session.mutex("ledger").lock().await.unwrap();
        assert_eq!(guard.token().get(), token);
        guard.release().await.unwrap();
    }
    let error = session.mutex("ledger").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[testbed::test]
async fn a_key_that_is_no_lock_is_left_alone() {
    let scene = Scene::start(3, &[]);
    let session = scene.session("ttl=60s").await;
    scene.tell_all(&["LPUSH", "ledger", "mine"]);
    let error = session.mutex("ledger").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("list"), "{error}");
    let error = session.inspector().queue("ledger").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    for node in &scene.fleet.servers {
        assert_eq!(node.tell("LRANGE ledger 0 -1"), "mine");
    }
    // On a minority it is like a node that is away.
    scene.fleet.servers[0].command(&["DEL", "ledger"]);
    scene.fleet.servers[1].command(&["DEL", "ledger"]);
    let guard = session.mutex("ledger").lock_within(LONG).await.unwrap();
    guard.check().unwrap();
}

#[testbed::test]
async fn what_redlock_does_not_have_is_refused() {
    let scene = Scene::start(3, &[]);
    let session = scene.session("ttl=60s").await;
    let error = session.mutex("lh:redlock").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    let error = session.rwlock("ledger").read().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let error = session.semaphore("ledger", 2).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(scene.count("ledger"), 0);
}
