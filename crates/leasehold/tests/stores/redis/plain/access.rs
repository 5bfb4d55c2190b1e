//! What a user of its own may do, and what is missing without it.

use std::path::Path;

use leasehold::engine::Severity;
use leasehold::{ErrorKind, Lost, Session};

use super::{TTL, calls, server, soon, until_asked};
use testbed::redis::RedisServer;

/// What `docs/stores/redis-plain.md` says that a user of its own needs.
fn documented_commands() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stores/redis-plain.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let line = docs
        .lines()
        .find(|line| line.starts_with("A user of `layout=plain` needs"))
        .unwrap();
    let (_, commands) = line.split_once("the commands").unwrap();
    let commands = commands.split('`').skip(1).step_by(2);
    commands.map(|command| format!("+{command}")).collect()
}

fn add_user(server: &RedisServer, name: &str, commands: &[String]) {
    let rules = ["ACL", "SETUSER", name, "on", ">hunter2", "~lh:*", "~jobs/*"];
    let commands = commands.iter().map(String::as_str);
    let words: Vec<_> = rules.into_iter().chain(commands).collect();
    server.command(&words);
}

async fn session_of(server: &RedisServer, user: &str) -> Session {
    let port = server.port();
    let url = format!("redis://{user}:hunter2@127.0.0.1:{port}?layout=plain&{TTL}");
    leasehold::connect(&url).await.unwrap()
}

#[testbed::test]
async fn a_user_may_do_what_is_documented_and_needs_no_more() {
    let (_folder, server) = server();
    add_user(&server, "ann", &documented_commands());
    let session = session_of(&server, "ann").await;
    let inspector = session.inspector();
    let guard = session.mutex("jobs/a").lock().await.unwrap();
    assert_eq!(inspector.names("jobs/").await.unwrap().len(), 1);
    assert_eq!(inspector.evict("jobs/a", "ann", "to see").await.unwrap(), 1);
    assert_eq!(soon("it is told", guard.lost()).await, Lost::Evicted);
    let findings = inspector.examine().await.unwrap();
    let is_told = |what: &str| !what.contains("does not tell us");
    assert!(findings.iter().all(|finding| is_told(&finding.what)));
    server.tell("HSET jobs/b 5f0c:1 1");
    let error = session.mutex("jobs/b").lock().await.unwrap_err();
    assert!(error.to_string().contains("Redisson"), "{error}");
    let error = session.mutex("other").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[testbed::test]
async fn a_server_that_does_not_tell_of_changes_is_asked_now_and_then() {
    let (_folder, server) = server();
    let mut commands = documented_commands();
    commands.retain(|command| command != "+client|tracking");
    add_user(&server, "ann", &commands);
    let session = session_of(&server, "ann").await;
    let findings = session.inspector().examine().await.unwrap();
    let warned = findings.iter().any(|finding| {
        finding.severity == Severity::Warning && finding.what.contains("does not tell us")
    });
    assert!(warned, "{findings:?}");
    server.tell("SET jobs/a theirs");
    let before = calls(&server, "evalsha");
    let mutex = session.mutex("jobs/a");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_asked(&server, before + 2).await;
    server.tell("DEL jobs/a");
    let guard = soon("it asks again", waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
}
