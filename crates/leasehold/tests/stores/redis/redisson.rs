//! What only a lock that is shared with Redisson shows. Redisson itself is
//! played by the commands that its scripts run.

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use leasehold::conformance::Bench;
use leasehold::engine::{Cause, ClaimRef, Owner, Severity, Standing, Ticket, TicketId, Withdrawn};
use leasehold::{ErrorKind, Guard, Lost, Name, Session};
use testbed::redis::{Cluster, RedisServer, Version};

const LONG: Duration = Duration::from_secs(120);
/// A client of Redisson and a thread of it.
const THEM: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:1";

/// A server, unless this machine has none and may skip.
fn server() -> (tempfile::TempDir, RedisServer) {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), &[]);
    (folder, server)
}

/// Its ttl is so long that nothing is found by a renewal that was due.
async fn session(url: &str) -> Session {
    let url = format!("{url}?layout=redisson&ttl=10m");
    leasehold::connect(&url).await.unwrap()
}

async fn soon<T>(what: &str, answer: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(LONG, answer).await;
    answer.unwrap_or_else(|_| panic!("{what}: not within {LONG:?}"))
}

fn until(what: &str, is_there: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_there() {
        assert!(Instant::now() < deadline, "{what}: not within {LONG:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What Redisson's lock does: the hash, and a time to live.
fn they_lock(server: &RedisServer, name: &str) {
    server.command(&["HSET", name, THEM, "1"]);
    server.command(&["PEXPIRE", name, "600000"]);
}

/// How often the server has run this command.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.info(&format!("cmdstat_{command}"));
    let calls = stats.and_then(|stats| {
        let calls = stats.strip_prefix("calls=")?.split(',').next()?.parse();
        calls.ok()
    });
    calls.unwrap_or(0)
}

/// What is published on a channel from here on.
fn listen(server: &RedisServer, channel: &str) -> Receiver<String> {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let (channel, (heard, hears)) = (channel.to_owned(), mpsc::channel());
    let (ready, is_ready) = mpsc::channel();
    // It ends with the server.
    std::thread::spawn(move || {
        let mut radio = connection.as_pubsub();
        radio.subscribe(channel).unwrap();
        ready.send(()).unwrap();
        while let Ok(message) = radio.get_message() {
            let _ = heard.send(message.get_payload().unwrap());
        }
    });
    is_ready.recv_timeout(LONG).unwrap();
    hears
}

async fn lost(guard: &Guard) -> Lost {
    soon("the holder is told", guard.lost()).await
}

#[testbed::test]
async fn our_lock_is_redissons_hash_and_its_release_wakes_redissons_waiters() {
    let (_folder, server) = server();
    let session = session(&server.url()).await;
    let guard = session.mutex("jobs").lock().await.unwrap();
    let hash = server.tell("HGETALL jobs");
    let (holder, count) = hash.split_once('\n').unwrap();
    let (uuid, thread) = holder.split_once(':').unwrap();
    assert_eq!(uuid.len(), 36, "{hash}");
    assert!(thread.parse::<i64>().is_ok_and(|id| id > 0), "{hash}");
    assert_eq!(count, "1");
    let left: u64 = server.tell("PTTL jobs").parse().unwrap();
    assert!((500_000..=600_000).contains(&left), "{left}");
    let radio = listen(&server, "redisson_lock__channel:{jobs}");
    guard.release().await.unwrap();
    assert_eq!(radio.recv_timeout(LONG).as_deref(), Ok("0"));
    assert_eq!(server.tell("EXISTS jobs"), "0");
}

#[testbed::test]
async fn a_lost_reply_is_recognised_and_counted_once() {
    let (_folder, server) = server();
    let url = format!("{}?layout=redisson", server.url());
    let engine = Bench::new(&url).await.unwrap().engine().await;
    let lease = engine.open(&Owner::new("twice"), LONG).await.unwrap();
    let claim = ClaimRef {
        name: Name::new("x").unwrap(),
        id: TicketId(7),
    };
    let ticket = Ticket {
        claim: claim.clone(),
        lease: lease.id,
        holder: 1,
        capacity: 1,
        weight: 1,
        waits: false,
        label: None,
    };
    let first = engine.enqueue(&ticket).await.unwrap();
    assert!(matches!(first, Standing::Held { .. }), "{first:?}");
    // As if the answer had not come.
    assert_eq!(engine.enqueue(&ticket).await.unwrap(), first);
    assert!(server.tell("HVALS x").eq("1"), "the count stays");
    let withdraw = || engine.withdraw(&claim, Cause::Ours);
    assert_eq!(withdraw().await.unwrap(), Withdrawn::Removed);
    they_lock(&server, "x");
    assert_eq!(withdraw().await.unwrap(), Withdrawn::Absent);
    assert_eq!(server.tell("HKEYS x"), THEM);
    // Our own thread number in another client's hands is not ours.
    assert_eq!(engine.enqueue(&ticket).await.unwrap(), Standing::Busy);
}

#[testbed::test]
async fn whoever_frees_the_lock_wakes_us_and_we_do_not_ask_meanwhile() {
    let (_folder, server) = server();
    let session = session(&server.url()).await;
    // The server learns the scripts.
    let first = session.mutex("x").lock().await.unwrap();
    first.release().await.unwrap();
    they_lock(&server, "x");
    let before = calls(&server, "evalsha");
    let mutex = session.mutex("x");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until("it has asked", || calls(&server, "evalsha") > before);
    // The proofs that nothing was missed: it has waited for more than a second.
    let pings = calls(&server, "ping");
    until("it waits", || calls(&server, "ping") >= pings + 3);
    assert_eq!(calls(&server, "evalsha"), before + 1);
    // No message: Redisson's spin lock sends none, an administrator neither.
    server.tell("DEL x");
    let guard = soon("it is free", waiting).await.unwrap().unwrap();
    assert_eq!(calls(&server, "evalsha"), before + 2);
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_lock_that_expires_is_taken_then() {
    let (_folder, server) = server();
    let session = session(&server.url()).await;
    they_lock(&server, "x");
    server.tell("PEXPIRE x 1500");
    let guard = soon("it expires", session.mutex("x").lock()).await.unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_forced_unlock_and_a_flush_end_our_holds_at_once() {
    let (_folder, server) = server();
    let session = session(&server.url()).await;
    let guard = session.mutex("x").lock().await.unwrap();
    let kept = session.mutex("y").lock().await.unwrap();
    // What `forceUnlock` does.
    server.tell("DEL x");
    assert_eq!(lost(&guard).await, Lost::Gone);
    // The renewal that found it out was no end of the watch.
    let again = session.mutex("x").lock().await.unwrap();
    assert!(again.token() > guard.token());
    they_lock(&server, "x");
    server.command(&["HDEL", "x", &holder_beside_them(&server)]);
    assert_eq!(lost(&again).await, Lost::Gone);
    kept.check().unwrap();
    server.tell("FLUSHALL");
    assert_eq!(lost(&kept).await, Lost::Gone);
    let next = session.mutex("y").lock().await.unwrap();
    assert!(next.token() > kept.token(), "tokens go on by the clock");
}

fn holder_beside_them(server: &RedisServer) -> String {
    let holders = server.tell("HKEYS x");
    let mut holders = holders.lines().filter(|holder| *holder != THEM);
    holders.next().unwrap().to_owned()
}

#[testbed::test]
async fn a_key_that_is_overwritten_ends_one_hold_and_not_the_others() {
    let (_folder, server) = server();
    let session = session(&server.url()).await;
    let guard = session.mutex("x").lock().await.unwrap();
    let kept = session.mutex("y").lock().await.unwrap();
    server.tell("SET x a-string");
    assert_eq!(lost(&guard).await, Lost::Gone);
    kept.check().unwrap();
    kept.release().await.unwrap();
    assert_eq!(server.tell("GET x"), "a-string");
}

#[testbed::test]
async fn keys_of_others_are_named() {
    let (_folder, server) = server();
    let session = session(&server.url()).await;
    server.tell("SET string token NX PX 60000");
    server.command(&["HSET", "shared", "mode", "read", THEM, "1"]);
    server.command(&["HSET", "map", "key", "value"]);
    server.tell("RPUSH list 1");
    for (name, owner) in [
        ("string", "redis-py"),
        ("shared", "RReadWriteLock"),
        ("map", "RMap"),
        ("list", "python-redis-lock"),
    ] {
        let error = session.mutex(name).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(owner), "{error}");
        let error = session.inspector().queue(name).await.unwrap_err();
        assert!(error.to_string().contains(owner), "{error}");
    }
    let error = session.rwlock("x").read().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let error = session.mutex("{x}:leasehold").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
}

#[testbed::test]
async fn a_holder_of_redisson_is_shown_and_can_be_broken() {
    let (_folder, server) = server();
    let session = session(&server.url()).await;
    they_lock(&server, "x");
    let inspector = session.inspector();
    let queue = inspector.queue("x").await.unwrap();
    assert_eq!(queue.claims.len(), 1);
    let shown = queue.claims[0].owner.to_string();
    assert!(shown.contains(THEM), "{shown}");
    assert_eq!(queue.claims[0].token, None);
    let radio = listen(&server, "redisson_lock__channel:{x}");
    assert_eq!(inspector.evict("x", "ann", "stuck").await.unwrap(), 1);
    assert_eq!(radio.recv_timeout(LONG).as_deref(), Ok("0"));
    assert_eq!(server.tell("EXISTS x"), "0");
    let evictions = inspector.queue("x").await.unwrap().evictions;
    assert_eq!((&*evictions[0].by, &*evictions[0].reason), ("ann", "stuck"));
    assert!(evictions[0].owner.to_string().contains(THEM));
}

#[testbed::test]
async fn tokens_of_redissons_fenced_lock_and_ours_have_one_order() {
    let (_folder, server) = server();
    let session = session(&server.url()).await;
    let counter = "redisson_lock_token:{x}";
    let guard = session.mutex("x").lock().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(server.command(&["EXISTS", counter]), redis::Value::Int(0));
    let theirs = || match server.command(&["INCR", counter]) {
        redis::Value::Int(token) => u64::try_from(token).unwrap(),
        other => panic!("{other:?}"),
    };
    theirs();
    for _ in 0..3 {
        let guard = session.mutex("x").lock().await.unwrap();
        let ours = guard.token().get();
        guard.release().await.unwrap();
        let next = theirs();
        assert!(next > ours, "{ours} then {next}");
        let guard = session.mutex("x").lock().await.unwrap();
        assert!(guard.token().get() > next, "{next} then {}", guard.token());
        guard.release().await.unwrap();
    }
}

#[testbed::test]
async fn lost_scripts_and_connections_lose_no_lock_and_no_wake_up() {
    let (_folder, server) = server();
    let (a, b) = (session(&server.url()).await, session(&server.url()).await);
    let guard = a.mutex("x").lock().await.unwrap();
    they_lock(&server, "y");
    let mutex = b.mutex("y");
    let before = calls(&server, "evalsha");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until("it has asked", || calls(&server, "evalsha") > before);
    server.tell("SCRIPT FLUSH");
    server.tell("CLIENT KILL TYPE normal");
    until("both are back", || {
        // Each new connection asks to be told of changes.
        calls(&server, "client|tracking") >= 4
    });
    guard.check().unwrap();
    server.tell("DEL y");
    let other = soon("it is free", waiting).await.unwrap().unwrap();
    other.release().await.unwrap();
    // Renewals over the new connection keep the watch.
    server.tell("DEL x");
    assert_eq!(lost(&guard).await, Lost::Gone);
}

#[testbed::test]
async fn a_server_that_tells_of_no_changes_is_asked_again() {
    let (_folder, server) = server();
    server.tell("ACL SETUSER ann on >pw ~* &* +@all -client|tracking");
    let url = format!("redis://ann:pw@127.0.0.1:{}", server.port());
    let session = session(&url).await;
    let findings = session.inspector().examine().await.unwrap();
    let mut warnings = findings
        .iter()
        .filter(|one| one.severity == Severity::Warning);
    assert!(
        warnings.any(|one| one.remedy.contains("CLIENT TRACKING")),
        "{findings:?}"
    );
    they_lock(&server, "x");
    let before = calls(&server, "evalsha");
    let mutex = session.mutex("x");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until("it asks", || calls(&server, "evalsha") > before + 2);
    server.tell("DEL x");
    let guard = soon("it is free", waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Before Redis 7 a server also tells us of what our own scripts changed.
#[testbed::test]
async fn an_old_server_does_not_make_us_follow_ourselves() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start_version(Version::Redis6, folder.path(), &[]);
    let session = session(&server.url()).await;
    they_lock(&server, "y");
    let mutex = session.mutex("y");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    let pings = || calls(&server, "ping");
    until("it waits", || pings() > 0);
    let guard = session.mutex("x").lock().await.unwrap();
    let before = (pings(), calls(&server, "evalsha"));
    until("time goes by", || pings() >= before.0 + 3);
    let scripts = calls(&server, "evalsha") - before.1;
    assert!(scripts <= 2, "{scripts}");
    server.tell("DEL x");
    assert_eq!(lost(&guard).await, Lost::Gone);
    server.tell("DEL y");
    drop(soon("it is free", waiting).await.unwrap().unwrap());
}

/// The list in `docs/stores/redis.md`.
#[testbed::test]
async fn a_user_of_its_own_needs_no_more_than_the_page_says() {
    const ALLOWED: &str = "~jobs/* ~{* ~redisson_lock_token:* ~redisson_lock__channel:* \
        &redisson_lock__channel:* -@all +hello +info +time +ping +client|tracking +evalsha \
        +script|load +type +exists +pttl +pexpire +hkeys +hexists +hget +hmget +hset +hdel \
        +get +set +del +publish +scan +lpush +ltrim +lrange";
    let (_folder, server) = server();
    let words = "ACL SETUSER ann on >pw resetchannels";
    let words: Vec<_> = words.split(' ').chain(ALLOWED.split_whitespace()).collect();
    server.command(&words);
    server.command(&["SET", "redisson_lock_token:{jobs/x}", "1"]);
    let url = format!("redis://ann:pw@127.0.0.1:{}", server.port());
    let session = session(&url).await;
    let guard = session.mutex("jobs/x").lock().await.unwrap();
    let inspector = session.inspector();
    assert_eq!(inspector.names("jobs/").await.unwrap().len(), 1);
    // It renews because it is told, and hears who did it.
    assert_eq!(inspector.evict("jobs/x", "ann", "stuck").await.unwrap(), 1);
    assert_eq!(lost(&guard).await, Lost::Evicted);
    let guard = session.mutex("jobs/x").lock().await.unwrap();
    guard.release().await.unwrap();
    server.tell("SET jobs/y string");
    let error = session.mutex("jobs/y").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let error = session.mutex("other").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    server.command(&["DEL", "jobs/y"]);
    assert!(
        !server.tell("ACL LOG").contains("jobs/"),
        "nothing more was refused"
    );
}

#[testbed::test]
async fn a_cluster_has_the_lock_where_redisson_looks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path());
    let (a, b) = (session(&cluster.url()).await, session(&cluster.url()).await);
    for name in ["x", "{tag}x"] {
        let slot = cluster.slot(name);
        let node = &cluster.servers[cluster.owner(slot)];
        let guard = a.mutex(name).lock().await.unwrap();
        assert_eq!(node.command(&["EXISTS", name]), redis::Value::Int(1));
        let mutex = b.mutex(name);
        let waiting = tokio::spawn(async move { mutex.lock().await });
        guard.release().await.unwrap();
        let guard = soon("it is free", waiting).await.unwrap().unwrap();
        assert!(calls(node, "spublish") > 0, "as Redisson expects it");
        // The lock moves with its slot.
        let to = (cluster.owner(slot) + 1) % 3;
        tokio::task::block_in_place(|| cluster.move_slot(slot, to));
        guard.check().unwrap();
        let node = &cluster.servers[to];
        until("it is there", || {
            node.ask(&["EXISTS", name]) == Ok(redis::Value::Int(1))
        });
        node.command(&["DEL", name]);
        let _ = a.mutex(name).lock().await.unwrap();
    }
    let error = a.mutex("a{b").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
}
