//! What only a real Redis server shows: the scripts give the verdicts of the
//! rule, a hand-over is two commands, and what happens when the server loses
//! its keys, its scripts or its connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pools::REDIS;
use crate::steps::{LONG, answered, queue_of, try_lock};
use leasehold::conformance::Bench;
use leasehold::engine::{
    Cause, ClaimRef, Engine, LeaseId, Owner, Standing, Ticket, TicketId, Withdrawn,
};
use leasehold::rule::{self, Claim, UNBOUNDED, Verdict};
use leasehold::{ErrorKind, Lost, Name, Session};
use testbed::redis::RedisServer;

/// A server in a folder of its own.
fn server(options: &[&str]) -> (tempfile::TempDir, RedisServer) {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), options);
    (folder, server)
}

async fn session(server: &RedisServer) -> Session {
    leasehold::connect(&format!("{}?ttl=20s", server.url()))
        .await
        .unwrap()
}

/// A small generator; its seed is the number of the queue.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn ticket(name: &str, lease: LeaseId, number: u128, capacity: u32, weight: u32) -> Ticket {
    Ticket {
        claim: ClaimRef {
            name: Name::new(name).unwrap(),
            id: TicketId(number),
        },
        lease,
        holder: 1,
        capacity,
        weight,
        waits: true,
        label: None,
    }
}

/// Our own model of one queue: what the store should have.
struct Model {
    engine: Arc<dyn Engine>,
    capacity: u32,
    tickets: Vec<(Ticket, Claim)>,
}

impl Model {
    async fn add(&mut self, ticket: Ticket) {
        let standing = self.engine.enqueue(&ticket).await.unwrap();
        let view = self.engine.queue(&ticket.claim.name).await.unwrap();
        let last = self.tickets.last().map_or(0, |(_, claim)| claim.order);
        let order = match standing {
            Standing::Held { token } => token.get(),
            // Its order is told when it holds; until then any later one will do.
            _ => last + 32,
        };
        assert!(order >= last + 32, "orders grow");
        assert_eq!(view.claims.last().unwrap().id, ticket.claim.id);
        let weight = ticket.weight;
        self.tickets.push((ticket, Claim { order, weight }));
        self.compare().await;
    }

    async fn remove(&mut self, at: usize) {
        let (ticket, _) = self.tickets.remove(at);
        let found = self
            .engine
            .withdraw(&ticket.claim, Cause::Ours)
            .await
            .unwrap();
        assert_eq!(found, Withdrawn::Removed);
        self.compare().await;
    }

    /// Every claim stands where the rule says, and watches what it says.
    async fn compare(&mut self) {
        // The orders of waiting claims are learned from the claims that watch
        // them, so queues are compared by position.
        let queue: Vec<Claim> = (1..)
            .zip(&self.tickets)
            .map(|(order, (_, claim))| Claim {
                order,
                weight: claim.weight,
            })
            .collect();
        let mut watched = std::collections::BTreeMap::new();
        for (at, (ticket, _)) in self.tickets.iter().enumerate() {
            let standing = self.engine.enqueue(ticket).await.unwrap();
            let verdict = rule::verdict(self.capacity, &queue, queue[at].order).unwrap();
            match (verdict, standing) {
                (Verdict::Held, Standing::Held { .. }) => {}
                (
                    Verdict::Waiting(rule::Watch::Any),
                    Standing::Waiting {
                        watch: rule::Watch::Any,
                        ahead,
                    },
                ) => {
                    assert_eq!(ahead as usize, at);
                }
                (
                    Verdict::Waiting(rule::Watch::One(place)),
                    Standing::Waiting {
                        watch: rule::Watch::One(order),
                        ahead,
                    },
                ) => {
                    assert_eq!(ahead as usize, at);
                    // One place, one order, in the same sequence.
                    let known = *watched.entry(place).or_insert(order);
                    assert_eq!(known, order);
                }
                other => panic!(
                    "capacity {}, {queue:?}, claim {at}: {other:?}",
                    self.capacity
                ),
            }
        }
        let orders: Vec<u64> = watched.values().copied().collect();
        assert!(orders.is_sorted_by(|a, b| a < b), "{watched:?}");
    }
}

#[testbed::test]
async fn the_scripts_give_the_verdicts_of_the_rule() {
    let server = REDIS.take();
    let engine = Bench::new(&server.url()).await.unwrap().engine().await;
    let lease = engine
        .open(&Owner::new("rule"), Duration::from_secs(60))
        .await
        .unwrap();
    for seed in 0..60_u64 {
        let mut dice = Dice(seed);
        let capacity = [1, 2, 3, 5, UNBOUNDED][usize::try_from(seed % 5).unwrap()];
        let name = format!("rule/{seed}");
        let mut model = Model {
            engine: engine.clone(),
            capacity,
            tickets: Vec::new(),
        };
        for step in 0..14_u128 {
            let count = u64::try_from(model.tickets.len()).unwrap();
            if count > 0 && dice.roll(3) == 0 {
                let at = usize::try_from(dice.roll(count)).unwrap();
                model.remove(at).await;
            } else {
                let weight = match capacity {
                    UNBOUNDED => [1, UNBOUNDED][usize::try_from(dice.roll(2)).unwrap()],
                    capacity => 1 + u32::try_from(dice.roll(capacity.into())).unwrap(),
                };
                let number = u128::from(seed) << 64 | step;
                model
                    .add(ticket(&name, lease.id, number, capacity, weight))
                    .await;
            }
        }
    }
    engine.close(&lease).await.unwrap();
    assert!(engine.names("").await.unwrap().is_empty());
}

/// How often the server has run a script.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.tell("INFO commandstats");
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let calls = line.and_then(|line| line.split(&['=', ','][..]).nth(1));
    calls.and_then(|calls| calls.parse().ok()).unwrap_or(0)
}

#[testbed::test]
async fn a_hand_over_is_two_commands_however_many_wait() {
    const WAITERS: u32 = 50;
    let server = REDIS.take();
    let url = format!("{}?ttl=60s", server.url());
    let holder = leasehold::connect(&url).await.unwrap();
    let inspector = holder.inspector();
    // The server learns each script at its first use, which counts as one more.
    let first = holder.mutex("hot").lock().await.unwrap();
    let other = leasehold::connect(&url).await.unwrap();
    let second = tokio::spawn(async move { other.mutex("hot").lock().await.map(drop) });
    queue_of(&inspector, "hot", 2).await;
    first.release().await.unwrap();
    second.await.unwrap().unwrap();
    let mut fewest = u64::MAX;
    for _ in 0..5 {
        fewest = fewest.min(scripts_of_hand_overs(&server, &holder, WAITERS).await);
    }
    // Each claim was enqueued before; what is left is one withdrawal each. A busy machine
    // makes a claim look that is not served for long, but not each time.
    assert_eq!(fewest, u64::from(WAITERS) + 1);
}

/// How many scripts run while a lock goes through so many sessions that wait for it.
async fn scripts_of_hand_overs(server: &RedisServer, holder: &Session, waiters: u32) -> u64 {
    let url = format!("{}?ttl=60s", server.url());
    let inspector = holder.inspector();
    let guard = holder.mutex("hot").lock().await.unwrap();
    let mut waits = Vec::new();
    for number in 0..waiters {
        let session = leasehold::connect(&url).await.unwrap();
        waits.push(tokio::spawn(async move {
            session
                .mutex("hot")
                .lock()
                .await
                .unwrap()
                .release()
                .await
                .unwrap();
            session
        }));
        queue_of(&inspector, "hot", number as usize + 2).await;
    }
    let before = scripts_run(server);
    guard.release().await.unwrap();
    let mut sessions = Vec::new();
    for wait in waits {
        sessions.push(wait.await.unwrap());
    }
    scripts_run(server) - before
}

#[testbed::test]
async fn a_server_that_forgets_its_keys_ends_holds_and_keeps_tokens_growing() {
    let server = REDIS.take();
    let (a, b) = (session(&server).await, session(&server).await);
    let guard = a.mutex("x").lock().await.unwrap();
    let waiting = tokio::spawn(async move { b.mutex("x").lock().await.map(|guard| (b, guard)) });
    queue_of(&a.inspector(), "x", 2).await;
    server.tell("FLUSHALL");
    assert_eq!(guard.lost().await, Lost::Gone);
    let (_b, next) = waiting.await.unwrap().unwrap();
    assert!(next.token() > guard.token());
}

#[testbed::test]
async fn nobody_leaves_a_barrier_by_the_word_of_a_server_that_forgot_who_is_inside() {
    let server = REDIS.take();
    // Nothing is renewed before this test is over.
    let url = format!("{}?ttl=1h", server.url());
    let (a, b) = tokio::try_join!(leasehold::connect(&url), leasehold::connect(&url)).unwrap();
    let (one, other) = (a.barrier("x", 2), b.barrier("x", 2));
    let (one, _other) = tokio::try_join!(one.enter(), other.enter()).unwrap();
    let leaving = tokio::spawn(one.leave());
    queue_of(&a.inspector(), "x", 1).await;
    server.tell("FLUSHALL");
    let error = leaving.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Lost::Gone), "{error}");
}

#[testbed::test]
async fn lost_scripts_and_connections_lose_no_lock() {
    let server = REDIS.take();
    let url = format!("{}?ttl=30s", server.url());
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let (a, b) = (
            leasehold::connect(&url).await.unwrap(),
            leasehold::connect(&url).await.unwrap(),
        );
        let guard = a.mutex("x").lock().await.unwrap();
        let waiting =
            tokio::spawn(async move { b.mutex("x").lock().await.map(|guard| (b, guard)) });
        queue_of(&a.inspector(), "x", 2).await;
        server.tell("SCRIPT FLUSH");
        server.tell("CLIENT KILL TYPE normal");
        server.tell("CLIENT KILL TYPE pubsub");
        guard.check().unwrap();
        let released = Instant::now();
        guard.release().await.unwrap();
        let (_b, next) = waiting.await.unwrap().unwrap();
        quickest = quickest.min(released.elapsed());
        next.release().await.unwrap();
    }
    // A wake-up that is lost costs a second, not a ttl.
    assert!(quickest < Duration::from_secs(2), "{quickest:?}");
}

#[testbed::test]
async fn a_restart_with_a_log_keeps_the_hold_and_the_queue() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let (_folder, mut server) = server(&options);
    let url = format!("{}?ttl=30s", server.url());
    let (a, b) = (
        leasehold::connect(&url).await.unwrap(),
        leasehold::connect(&url).await.unwrap(),
    );
    let guard = a.mutex("x").lock().await.unwrap();
    let waiting = tokio::spawn(async move { b.mutex("x").lock().await.map(|guard| (b, guard)) });
    queue_of(&a.inspector(), "x", 2).await;
    tokio::task::block_in_place(|| server.restart());
    guard.check().unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    let (_b, next) = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
}

#[testbed::test]
async fn bad_servers_are_refused_in_one_clear_line() {
    let (_folder, server) = server(&["--requirepass", "hunter2"]);
    let port = server.port();
    let refused = |url: String| async move { leasehold::connect(&url).await.unwrap_err() };
    let error = refused(format!("redis://127.0.0.1:{port}")).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let error = refused(format!("redis://:hunter3@127.0.0.1:{port}")).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("wrong user or password"), "{shown}");
    assert!(!shown.contains("hunter3"), "{shown}");
    let session = leasehold::connect(&format!("redis://:hunter2@127.0.0.1:{port}/1"))
        .await
        .unwrap();
    assert!(!format!("{session:?}").contains("hunter2"));
    let error = refused("redis://127.0.0.1:1".into()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        error
            .to_string()
            .contains("redis 127.0.0.1:1: unavailable: connection refused"),
        "{error}"
    );
}

#[testbed::test]
async fn a_key_of_somebody_else_is_named() {
    let server = REDIS.take();
    server.tell("SET lh:{x} theirs");
    let error = session(&server).await.mutex("x").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("another type"), "{error}");
}

#[testbed::test]
async fn several_free_locks_are_one_command() {
    let server = REDIS.take();
    let ours = session(&server).await;
    let names = ["a", "b", "c", "d"];
    ours.lock_all(names)
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    // A busy machine makes a command that is sent again, but not each time.
    let mut fewest = u64::MAX;
    for _ in 0..5 {
        let before = scripts_run(&server);
        let guards = ours.lock_all(names).lock().await.unwrap();
        fewest = fewest.min(scripts_run(&server) - before);
        guards.release().await.unwrap();
    }
    assert_eq!(fewest, 1);
    let guards = ours.lock_all(names).lock().await.unwrap();
    // One that is held keeps the others free.
    let other = session(&server).await;
    let both = other.lock_all(["d", "e"]);
    assert!(answered(|| both.try_lock()).await.is_none());
    assert!(try_lock(&other, "e").await.is_some());
    let tokens: Vec<_> = guards.iter().map(leasehold::Guard::token).collect();
    guards.release().await.unwrap();
    let all = other.lock_all(names);
    let guards = answered(|| all.try_lock()).await.unwrap();
    let grown = guards
        .iter()
        .zip(tokens)
        .all(|(guard, token)| guard.token() > token);
    assert!(grown, "each lock's tokens grow");
}

#[testbed::test]
async fn a_lock_whose_holder_died_is_free_for_several_too() {
    let server = REDIS.take();
    let engine = Bench::new(&format!("{}?ttl=1s", server.url()))
        .await
        .unwrap();
    let dead = engine.engine().await;
    let lease = dead
        .open(&Owner::new("dead"), Duration::from_millis(200))
        .await
        .unwrap();
    dead.enqueue(&ticket("b", lease.id, 77, 1, 1))
        .await
        .unwrap();
    // Nobody renews it.
    let ours = session(&server).await;
    let both = ours.lock_all(["a", "b"]);
    let guards = tokio::time::timeout(LONG, async {
        loop {
            if let Some(guards) = answered(|| both.try_lock()).await {
                return guards;
            }
            tokio::task::yield_now().await;
        }
    });
    guards.await.unwrap().release().await.unwrap();
}
