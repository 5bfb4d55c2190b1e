//! What others do to a lock, and what the server forgets, is noticed.

use std::time::Duration;

use leasehold::Lost;

use super::{calls, server, session, soon, until, until_asked};
use testbed::redis::{RedisServer, Version};

/// Waits for a stretch in which the session proves its connection three times
/// and asks for nothing: with polling there would be none.
async fn until_nobody_polls(server: &RedisServer) {
    let count = || (calls(server, "evalsha"), calls(server, "ping"));
    let mut start = count();
    soon("the session sleeps", async {
        loop {
            let (asked, pings) = count();
            if asked > start.0 {
                start = (asked, pings);
            }
            if pings >= start.1 + 3 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// On the system's server and on the others: they remember what a script read
/// in different ways.
async fn changes_by_others_are_noticed(server: &RedisServer) {
    let (a, b) = (session(server).await, session(server).await);
    // Without an expiry: there is no time to wait for.
    server.tell("SET x theirs");
    let before = calls(server, "evalsha");
    let mutex = a.mutex("x");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_asked(server, before).await;
    until_nobody_polls(server).await;
    server.tell("DEL x");
    let guard = soon("a foreign release wakes", waiting).await;
    let guard = guard.unwrap().unwrap();

    // A lock of ours that is given back wakes as well.
    let before = calls(server, "evalsha");
    let mutex = b.mutex("x");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_asked(server, before).await;
    let last = guard.token();
    guard.release().await.unwrap();
    let guard = soon("our release wakes", waiting).await.unwrap().unwrap();
    assert!(guard.token() > last);

    server.tell("DEL x");
    assert_eq!(soon("it is told", guard.lost()).await, Lost::Gone);
    let guard = b.mutex("x").lock().await.unwrap();
    server.tell("SET x theirs");
    assert_eq!(soon("it is told", guard.lost()).await, Lost::Gone);
    guard.release().await.unwrap_err();
    assert_eq!(server.tell("GET x"), "theirs", "that is not ours to delete");
    server.tell("DEL x");

    // A renewal is a write of ours, and the server has to be asked anew to tell
    // of changes. This change by another calls for one.
    let guard = b.mutex("x").lock().await.unwrap();
    let renewed = calls(server, "evalsha");
    server.tell("PEXPIRE x 100000");
    until("it is renewed", || calls(server, "evalsha") > renewed).await;
    guard.check().unwrap();
    server.tell("DEL x");
    assert_eq!(soon("it is told", guard.lost()).await, Lost::Gone);
}

#[testbed::test]
async fn what_others_do_is_noticed_at_once_without_polling() {
    let (_folder, server) = server();
    changes_by_others_are_noticed(&server).await;
}

#[testbed::test]
async fn what_others_do_is_noticed_on_other_versions_too() {
    for version in [Version::Redis6, Version::Valkey9] {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start_version(version, folder.path(), &[]);
        changes_by_others_are_noticed(&server).await;
    }
}

#[testbed::test]
async fn a_foreign_lock_is_free_when_its_time_is_over() {
    let (_folder, server) = server();
    // The server removes what expired when it comes to it, and only then tells
    // of it. With this it never comes to it by itself.
    server.tell("DEBUG SET-ACTIVE-EXPIRE 0");
    let session = session(&server).await;
    server.tell("SET x theirs PX 1500");
    let guard = soon("it expires", session.mutex("x").lock()).await;
    guard.unwrap().release().await.unwrap();
}

#[testbed::test]
async fn a_server_that_forgets_its_keys_ends_holds_and_keeps_tokens_growing() {
    let (_folder, server) = server();
    let (a, b) = (session(&server).await, session(&server).await);
    let guard = a.mutex("x").lock().await.unwrap();
    let before = calls(&server, "evalsha");
    let mutex = b.mutex("x");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_asked(&server, before).await;
    server.tell("FLUSHALL");
    assert_eq!(soon("it is told", guard.lost()).await, Lost::Gone);
    let next = soon("the other gets it", waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
}

#[testbed::test]
async fn lost_scripts_and_connections_lose_no_lock_and_no_news() {
    let (_folder, server) = server();
    let (a, b) = (session(&server).await, session(&server).await);
    let guard = a.mutex("x").lock().await.unwrap();
    let before = calls(&server, "evalsha");
    let mutex = b.mutex("x");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_asked(&server, before).await;
    let asked = calls(&server, "evalsha");
    server.tell("SCRIPT FLUSH");
    server.tell("CLIENT KILL TYPE normal");
    // Both look for themselves: the holder renews, the other asks again; each
    // of them teaches the server its script first.
    until("both are back", || calls(&server, "evalsha") >= asked + 4).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    let guard = soon("the other gets it", waiting).await.unwrap().unwrap();
    server.tell("DEL x");
    assert_eq!(soon("it is told", guard.lost()).await, Lost::Gone);
}

/// Before Redis 7 a server also tells us of what our own scripts changed.
#[testbed::test]
async fn an_old_server_does_not_make_us_follow_ourselves() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start_version(Version::Redis6, folder.path(), &[]);
    let url = format!("{}?layout=plain&ttl=1s", server.url());
    let session = leasehold::connect(&url).await.unwrap();
    let guard = session.mutex("x").lock().await.unwrap();
    let renewals = || calls(&server, "pexpire");
    until("it is renewed", || renewals() > 0).await;
    let (before, renewed) = (calls(&server, "evalsha"), renewals());
    until("it is renewed again", || renewals() >= renewed + 3).await;
    let scripts = calls(&server, "evalsha") - before;
    assert!(scripts <= 12, "{scripts}");
    server.tell("DEL x");
    assert_eq!(soon("it is told", guard.lost()).await, Lost::Gone);
}
