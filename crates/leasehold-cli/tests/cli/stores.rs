//! What every command does on every store, whichever server it is.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use libtest_mimic::Trial;
use serde_json::Value;
use testbed::Pool;
#[cfg(feature = "etcd")]
use testbed::etcd::Etcd;
#[cfg(feature = "mysql")]
use testbed::mysql::Mysql;
#[cfg(feature = "postgres")]
use testbed::postgres::Postgres;
#[cfg(feature = "redis")]
use testbed::redis::RedisServer;
#[cfg(feature = "zookeeper")]
use testbed::zookeeper::Zookeeper;

use crate::world::{Running, World, until};
use crate::{barrier, latch, stamp};

/// A server that a case has for itself, and another case after it.
struct Server {
    world: World,
    /// What the store itself says is left when nobody holds or waits.
    left: Box<dyn Fn() -> String>,
}

impl Server {
    fn of<T: Send>(
        pool: &'static Pool<T>,
        url: fn(&T) -> String,
        left: impl Fn(&T) -> String + 'static,
    ) -> Self {
        let server = pool.take();
        Self {
            world: World::on(url(&server)),
            left: Box::new(move || left(&server)),
        }
    }
}

struct Store {
    name: &'static str,
    take: fn() -> Server,
    /// What is to be said of a stamp's word there.
    of_words: fn(&World),
}

#[cfg(feature = "redis")]
static REDIS: Pool<RedisServer> = Pool::new(
    1,
    |folder| RedisServer::start(folder, &[]),
    RedisServer::wipe,
);
#[cfg(feature = "etcd")]
static ETCD: Pool<Etcd> = Pool::new(1, |folder| crate::etcd::start(folder, 3), Etcd::wipe);
#[cfg(feature = "zookeeper")]
static ZOOKEEPER: Pool<Zookeeper> = Pool::new(
    1,
    |folder| crate::zookeeper::start(folder, 3),
    Zookeeper::wipe,
);
#[cfg(feature = "postgres")]
static POSTGRES: Pool<Postgres> = Pool::new(
    1,
    |folder| Postgres::start(folder, &[]),
    |server| {
        server.sql("drop schema if exists leasehold cascade");
    },
);
#[cfg(feature = "mysql")]
static MYSQL: Pool<Mysql> = Pool::new(
    1,
    |folder| Mysql::start(folder, &[]),
    |server| {
        server.sql("drop database shop; create database shop");
    },
);

const STORES: &[Store] = &[
    #[cfg(feature = "redis")]
    Store {
        name: "redis",
        take: || Server::of(&REDIS, RedisServer::url, left_on_redis),
        of_words: stamp::a_word_is_refused,
    },
    #[cfg(feature = "etcd")]
    Store {
        name: "etcd",
        take: || {
            Server::of(&ETCD, Etcd::url, |etcd| {
                etcd.ctl(&["get", "x/", "--prefix"])
            })
        },
        of_words: stamp::a_word_is_refused,
    },
    #[cfg(feature = "zookeeper")]
    Store {
        name: "zookeeper",
        take: || {
            Server::of(&ZOOKEEPER, Zookeeper::url, |zookeeper| {
                let children = zookeeper.client().children("/x");
                children.unwrap_or_default().join(" ")
            })
        },
        of_words: stamp::a_word_tells_of_a_writer,
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres",
        take: || {
            Server::of(&POSTGRES, Postgres::url, |server| {
                server.sql(
                    "select ticket::text from leasehold.claim \
                     union all select id::text from leasehold.session \
                     union all select relname::text from pg_class where relname = 'bare'",
                )
            })
        },
        of_words: stamp::a_word_tells_of_a_writer,
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mysql",
        take: || {
            Server::of(&MYSQL, Mysql::url, |server| {
                server.sql(
                    "select hex(ticket) from leasehold_claim where ticket is not null \
                     union all select hex(id) from leasehold_session \
                     union all select table_name from information_schema.tables \
                     where table_name = 'leasehold_bare'",
                )
            })
        },
        of_words: stamp::a_word_is_refused,
    },
];

/// Every key and field but those of a lock that has no claim.
#[cfg(feature = "redis")]
fn left_on_redis(server: &RedisServer) -> String {
    let mut left = Vec::new();
    for key in server.tell("KEYS *").lines() {
        let of_lock = key
            .strip_prefix("lh:{")
            .and_then(|key| key.strip_suffix('}'));
        match of_lock {
            None => left.push(key.to_owned()),
            Some(_) => {
                let fields = server.tell(&format!("HKEYS {key}"));
                let known = |field: &&str| !["last", "cap", "held"].contains(field);
                left.extend(fields.lines().filter(known).map(str::to_owned));
            }
        }
    }
    left.join(" ")
}

type Case = (&'static str, fn(&Store));

const CASES: [Case; 4] = [
    (
        "a_command_gets_its_lock_and_a_greater_token_each_time",
        a_command_gets_its_lock_and_a_greater_token_each_time,
    ),
    (
        "a_lock_is_seen_refused_and_broken",
        a_lock_is_seen_refused_and_broken,
    ),
    (
        "stamps_latches_and_barriers_are_as_on_a_file",
        stamps_latches_and_barriers_are_as_on_a_file,
    ),
    (
        "a_benchmark_gives_figures_beside_the_raw_floor",
        a_benchmark_gives_figures_beside_the_raw_floor,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let on_store = |(name, case): &'static Case| {
        let trial = move |store: &'static Store| {
            testbed::trial(format!("stores::{}::{name}", store.name), || case(store))
        };
        STORES.iter().map(trial)
    };
    CASES.iter().flat_map(on_store).collect()
}

fn a_command_gets_its_lock_and_a_greater_token_each_time(store: &Store) {
    let server = (store.take)();
    let world = &server.world;
    let token = || {
        let done = world.run(&["run", "x", "printenv", "LEASEHOLD_TOKEN"]);
        done.stdout.trim().parse::<u64>().unwrap()
    };
    assert!(token() < token());
    let ours = env!("CARGO_BIN_EXE_leasehold");
    let done = world.run(&["run", "x", ours, "run", "-n", "x", "echo", "inside"]);
    assert_eq!((done.code, done.stdout.trim()), (0, "inside"), "{done:?}");
    assert_eq!(world.run(&["run", "x", "sh", "-c", "exit 7"]).code, 7);
    let shown = world.show("x");
    let none = serde_json::json!([]);
    assert_eq!((&shown["holders"], &shown["waiting"]), (&none, &none));
    assert_eq!((server.left)(), "");
}

fn a_lock_is_seen_refused_and_broken(store: &Store) {
    let server = (store.take)();
    let world = &server.world;
    let mut hold = world.leasehold(["hold", "x", "--label", "me"]);
    let mut hold = Running::of(hold.stdin(Stdio::piped()));
    world.until_held("x");
    let listed = world.run(&["ls", "--json"]).json();
    assert_eq!(listed[0]["holders"][0]["owner"]["label"], "me", "{listed}");
    let mut watch = world.start(&["watch", "--json"]);
    let mut events = BufReader::new(watch.child().stdout.take().unwrap()).lines();
    let mut event = || -> Value { serde_json::from_str(&events.next().unwrap().unwrap()).unwrap() };
    assert_eq!(event()["event"], "held");

    let done = world.run(&["run", "-n", "x", "true"]);
    assert_eq!(done.code, 75);
    assert!(done.complaint().contains("(me)"), "{done:?}");
    assert_eq!(world.run(&["run", "-w", "300ms", "x", "true"]).code, 75);
    let done = world.run(&["run", "--slots", "3", "x", "true"]);
    assert_eq!(done.code, 64);
    assert!(done.complaint().contains("in use as a mutex"), "{done:?}");

    let done = world.run(&["break", "x", "--yes", "--reason", "it is stuck"]);
    assert_eq!(done.code, 0, "{done:?}");
    until("hold to end", || hold.child().try_wait().unwrap());
    let done = hold.done();
    assert_eq!(done.code, 76, "{done:?}");
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    let lost = last["lost"].as_str().unwrap();
    assert!(lost.contains("it is stuck"), "{last}");
    // The commands that were refused may have been seen waiting before.
    let mut next = event();
    while next["event"] == "waiting" || next["event"] == "left" {
        next = event();
    }
    let evicted = (&next["event"], &next["reason"]);
    assert_eq!(evicted, (&"evicted".into(), &"it is stuck".into()));
    let shown = world.show("x");
    assert_eq!(shown["evictions"][0]["reason"], "it is stuck", "{shown}");
}

fn stamps_latches_and_barriers_are_as_on_a_file(store: &Store) {
    let server = (store.take)();
    let world = &server.world;
    stamp::a_command_is_good_if_no_writer_came_meanwhile(world);
    (store.of_words)(world);
    latch::who_waits_goes_on_when_all_parts_are_counted(world);
    barrier::all_begin_together_and_none_is_done_before_all_are(world);
}

fn a_benchmark_gives_figures_beside_the_raw_floor(store: &Store) {
    let server = (store.take)();
    let url = server.world.url();
    let done = server.world.run(&[
        "--url", &url, "bench", "--json", "--for", "100ms", "--only", "one task",
    ]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let figures: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    for name in [
        "lock + unlock, p50",
        "raw floor, p50",
        "p50 against the raw floor",
    ] {
        let figure = figures.iter().find(|figure| figure["figure"] == name);
        assert!(figure.unwrap()["value"].as_f64().unwrap() > 0.0, "{name}");
    }
    assert_eq!((server.left)(), "");
}
