//! What only `layout=plain` shows on real servers: it is the same lock as
//! everybody else's, and what others do to it is noticed at once.

mod access;
mod changes;

use std::time::Duration;

use crate::steps::{LONG, try_lock};
use leasehold::conformance::Bench;
use leasehold::engine::{ClaimRef, Owner, Standing, Ticket, TicketId};
use leasehold::{ErrorKind, Lost, Name, Session};
use tempfile::TempDir;
use testbed::redis::{Cluster, RedisServer};

/// A third of it is more than any test waits, so nothing here is found by a
/// renewal that was due.
const TTL: &str = "ttl=1h";

fn server() -> (TempDir, RedisServer) {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    (folder, server)
}

async fn session(server: &RedisServer) -> Session {
    let url = format!("{}?layout=plain&{TTL}", server.url());
    leasehold::connect(&url).await.unwrap()
}

/// The answer, which is bound to come.
async fn soon<T>(what: &str, answer: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(LONG, answer).await;
    answer.unwrap_or_else(|_| panic!("{what}: not after {LONG:?}"))
}

/// Waits for a state that is bound to come.
async fn until(what: &str, is_there: impl Fn() -> bool) {
    soon(what, async {
        while !is_there() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// How often the server has done a command.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.info(&format!("cmdstat_{command}"));
    let calls = stats.and_then(|stats| stats.split(&['=', ','][..]).nth(1)?.parse().ok());
    calls.unwrap_or(0)
}

/// Waits until somebody waits: a lock was asked for in vain.
async fn until_asked(server: &RedisServer, before: u64) {
    until("the lock is asked for", || {
        calls(server, "evalsha") > before
    })
    .await;
}

fn ticket(name: &str, lease: leasehold::engine::LeaseId, id: u128) -> Ticket {
    Ticket {
        claim: ClaimRef {
            name: Name::new(name).unwrap(),
            id: TicketId(id),
        },
        lease,
        holder: 1,
        capacity: 1,
        weight: 1,
        waits: true,
        label: None,
    }
}

#[testbed::test]
async fn the_key_is_the_name_and_its_value_the_ticket() {
    let (_folder, server) = server();
    let session = session(&server).await;
    let guard = session.mutex("jobs/nightly").lock().await.unwrap();
    let value = server.tell("GET jobs/nightly");
    assert_eq!(value.len(), 32, "{value}");
    assert!(value.chars().all(|digit| digit.is_ascii_hexdigit()));
    let left: u64 = server.tell("PTTL jobs/nightly").parse().unwrap();
    assert!((1..=3_600_000).contains(&left), "{left}");
    assert_eq!(server.tell("SET jobs/nightly theirs NX PX 1000"), "");
    guard.release().await.unwrap();
    assert_eq!(server.tell("EXISTS jobs/nightly"), "0");
    assert_eq!(server.tell("SET jobs/nightly theirs NX PX 60000"), "OK");
    assert!(try_lock(&session, "jobs/nightly").await.is_none());
    assert_eq!(server.tell("GET jobs/nightly"), "theirs");
}

#[testbed::test]
async fn a_lost_reply_is_recognised_by_the_own_value() {
    let (_folder, server) = server();
    let bench = Bench::new(&format!("{}?layout=plain", server.url())).await;
    let engine = bench.unwrap().engine().await;
    let ttl = Duration::from_secs(60);
    let lease = engine.open(&Owner::new("lost"), ttl).await.unwrap();
    // As if the server had done it and only we do not know.
    server.tell(&format!("SET x {:032x} PX 30000", 7));
    let standing = engine.enqueue(&ticket("x", lease.id, 7)).await.unwrap();
    let Standing::Held { token } = standing else {
        panic!("{standing:?}");
    };
    // Once more: it is the same grant.
    let again = engine.enqueue(&ticket("x", lease.id, 7)).await.unwrap();
    assert_eq!(again, Standing::Held { token });
    let other = engine.enqueue(&ticket("x", lease.id, 8)).await.unwrap();
    assert!(matches!(other, Standing::Waiting { .. }), "{other:?}");
    engine.close(&lease).await.unwrap();
    assert_eq!(server.tell("EXISTS x"), "0");
}

#[testbed::test]
async fn a_key_of_another_type_is_named_with_its_library() {
    let (_folder, server) = server();
    let session = session(&server).await;
    server.tell("HSET x 5f0c:1 1");
    let error = session.mutex("x").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("Redisson"), "{error}");
    let error = session.inspector().queue("x").await.unwrap_err();
    assert!(error.to_string().contains("Redisson"), "{error}");
    let guard = session.mutex("y").lock().await.unwrap();
    server.tell("DEL y");
    server.tell("HSET y 5f0c:1 1");
    assert_eq!(soon("it is told", guard.lost()).await, Lost::Gone);
    guard.release().await.unwrap_err();
    assert_eq!(server.tell("HGET y 5f0c:1"), "1");
}

#[testbed::test]
async fn what_this_layout_does_not_have_is_refused() {
    let (_folder, server) = server();
    let session = session(&server).await;
    let error = session.rwlock("x").read().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("layout=queue"), "{error}");
    for name in ["lh:p:{x}", "lh:"] {
        let error = session.mutex(name).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
}

#[testbed::test]
async fn tokens_grow_over_a_clock_that_was_set_back() {
    let (_folder, server) = server();
    let session = session(&server).await;
    // As if the last grant had been made an hour ahead of the server's clock.
    let seconds: u64 = server
        .tell("TIME")
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let ahead = (seconds + 3600) * 1_000_000;
    let note = format!("{ahead} {:032x} 1 1 host label", 7);
    server.command(&["SET", "lh:p:{x}", &note, "PX", "3700000"]);
    let guard = session.mutex("x").lock().await.unwrap();
    assert_eq!(guard.token().get(), ahead + 32);
    let left: u64 = server.tell("PTTL lh:p:{x}").parse().unwrap();
    assert!(left > 3_600_000, "it is remembered for that long: {left}");
}

#[testbed::test]
async fn a_foreign_holder_is_shown_and_can_be_broken() {
    let (_folder, server) = server();
    let session = session(&server).await;
    let inspector = session.inspector();
    server.tell("SET x aGVsbG8gd29ybGQ=");
    let queue = inspector.queue("x").await.unwrap();
    let holder = &queue.claims[0];
    assert_eq!((holder.owner.host(), holder.token), ("?", None));
    assert!(holder.owner.label().starts_with("foreign"));
    let shown = format!("{queue:?}");
    assert!(!shown.contains("aGVsbG8gd29ybGQ="), "{shown}");
    assert_eq!(inspector.evict("x", "ann", "stuck").await.unwrap(), 1);
    assert_eq!(server.tell("EXISTS x"), "0");
    let after = inspector.queue("x").await.unwrap();
    assert!(after.claims.is_empty());
    assert_eq!(after.evictions[0].by, "ann");
    // Who was seen is broken, not whoever holds it by now.
    let guard = session.mutex("x").lock().await.unwrap();
    let name = Name::new("x").unwrap();
    let is_broken = inspector.evict_claim(&name, holder.id, "ann", "stuck");
    assert!(!is_broken.await.unwrap());
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn in_a_cluster_every_name_has_its_note_in_its_slot() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path());
    let url = format!("{}?layout=plain&ttl=30s", cluster.url());
    let (a, b) = (
        leasehold::connect(&url).await.unwrap(),
        leasehold::connect(&url).await.unwrap(),
    );
    let names = [
        "a", "b", "c", "{a}", "{x}y", "a}b", "}{", "{}", "x{y", "{🔒}",
    ];
    let mut guards = Vec::new();
    for name in names {
        guards.push(a.mutex(name).lock().await.unwrap());
        assert!(try_lock(&b, name).await.is_none(), "{name}");
    }
    let listed = b.inspector().names("").await.unwrap();
    assert_eq!(listed.len(), names.len(), "{listed:?}");
    // Others change one of them; the renewal that this calls for keeps the rest.
    let owner = cluster.owner(cluster.slot("b"));
    cluster.servers[owner].tell("DEL b");
    assert_eq!(soon("it is told", guards[1].lost()).await, Lost::Gone);
    for (name, guard) in names.iter().zip(&guards) {
        assert_eq!(guard.check().is_ok(), *name != "b", "{name}");
    }
    let mutex = b.mutex("c");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    guards.remove(2).release().await.unwrap();
    let guard = soon("the other gets it", waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
    a.close().await;
    let left = b.inspector().names("").await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}
