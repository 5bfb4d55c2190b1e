//! What every command does on every store, whichever server it is.

use std::any::Any;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::world::{Running, World, until};
use crate::{barrier, latch, stamp};

/// A server that is kept while a case runs.
struct Server {
    world: World,
    /// What the store itself says is left when nobody holds or waits.
    left: Box<dyn Fn() -> String>,
    _server: Box<dyn Any>,
}

struct Store {
    name: &'static str,
    start: fn() -> Server,
    /// What is to be said of a stamp's word there.
    of_words: fn(&World),
}

const STORES: &[Store] = &[
    #[cfg(feature = "redis")]
    Store {
        name: "redis",
        start: || {
            let server = std::rc::Rc::new(crate::redis_server::Server::start());
            let asked = server.clone();
            Server {
                world: server.world(),
                left: Box::new(move || asked.tell("HGETALL lh:{x}:c")),
                _server: Box::new(server),
            }
        },
        of_words: stamp::a_word_is_refused,
    },
    #[cfg(feature = "etcd")]
    Store {
        name: "etcd",
        start: || {
            let (folder, etcd) = crate::etcd::etcd(3);
            let etcd = std::rc::Rc::new(etcd);
            let asked = etcd.clone();
            Server {
                world: World::on(etcd.url()),
                left: Box::new(move || asked.ctl(&["get", "x/", "--prefix"])),
                _server: Box::new((folder, etcd)),
            }
        },
        of_words: stamp::a_word_is_refused,
    },
    #[cfg(feature = "zookeeper")]
    Store {
        name: "zookeeper",
        start: || {
            let (folder, zookeeper) = crate::zookeeper::zookeeper(3);
            let zookeeper = std::rc::Rc::new(zookeeper);
            let asked = zookeeper.clone();
            let left = move || {
                let children = asked.client().children("/x");
                children.unwrap_or_default().join(" ")
            };
            Server {
                world: World::on(zookeeper.url()),
                left: Box::new(left),
                _server: Box::new((folder, zookeeper)),
            }
        },
        of_words: stamp::a_word_tells_of_a_writer,
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres",
        start: || {
            let (folder, server) = crate::postgres::postgres(&[]);
            let server = std::rc::Rc::new(server);
            let asked = server.clone();
            let left = move || {
                asked.sql(
                    "select ticket::text from leasehold.claim \
                     union all select id::text from leasehold.session \
                     union all select relname::text from pg_class where relname = 'bare'",
                )
            };
            Server {
                world: World::on(server.url()),
                left: Box::new(left),
                _server: Box::new((folder, server)),
            }
        },
        of_words: stamp::a_word_tells_of_a_writer,
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mysql",
        start: || {
            let (folder, server) = crate::mysql::mysql(&[]);
            let server = std::rc::Rc::new(server);
            let asked = server.clone();
            let left = move || {
                asked.sql(
                    "select hex(ticket) from leasehold_claim where ticket is not null \
                     union all select hex(id) from leasehold_session \
                     union all select table_name from information_schema.tables \
                     where table_name = 'leasehold_bare'",
                )
            };
            Server {
                world: World::on(server.url()),
                left: Box::new(left),
                _server: Box::new((folder, server)),
            }
        },
        of_words: stamp::a_word_is_refused,
    },
];

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
    let server = (store.start)();
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
    let server = (store.start)();
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
    // Those who were refused may have been seen waiting before.
    let kind = std::iter::repeat_with(event).find(|event| event["event"] == "evicted");
    assert!(kind.is_some());
    let shown = world.show("x");
    assert_eq!(shown["evictions"][0]["reason"], "it is stuck", "{shown}");
}

fn stamps_latches_and_barriers_are_as_on_a_file(store: &Store) {
    let server = (store.start)();
    let world = &server.world;
    stamp::a_command_is_good_if_no_writer_came_meanwhile(world);
    (store.of_words)(world);
    latch::who_waits_goes_on_when_all_parts_are_counted(world);
    barrier::all_begin_together_and_none_is_done_before_all_are(world);
}

fn a_benchmark_gives_figures_beside_the_raw_floor(store: &Store) {
    let server = (store.start)();
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
