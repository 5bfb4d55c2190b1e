//! Every case on every store. A case that a store does not promise is listed as
//! ignored, with the reason.

#[cfg(feature = "etcd")]
#[path = "server/etcd.rs"]
mod etcd;
#[cfg(feature = "etcd")]
#[path = "conformance/etcd_pool.rs"]
mod etcd_pool;
#[cfg(feature = "mysql")]
#[path = "server/mysql.rs"]
mod mysql;
#[cfg(feature = "mysql")]
#[path = "conformance/mysql_pool.rs"]
mod mysql_pool;
#[cfg(feature = "redis")]
#[path = "conformance/pool.rs"]
mod pool;
#[cfg(feature = "postgres")]
#[path = "server/postgres.rs"]
mod postgres;
#[cfg(feature = "postgres")]
#[path = "conformance/postgres_pool.rs"]
mod postgres_pool;
#[cfg(feature = "redis")]
mod server;
#[cfg(any(feature = "mysql", feature = "postgres"))]
#[path = "conformance/turns.rs"]
mod turns;
#[cfg(feature = "zookeeper")]
#[path = "server/zookeeper.rs"]
mod zookeeper;
#[cfg(feature = "zookeeper")]
#[path = "conformance/zookeeper_pool.rs"]
mod zookeeper_pool;

use std::path::Path;
use std::process::ExitCode;

use leasehold::Promises;
use leasehold::conformance::{Bench, Case, cases, is_peer, peer_main};
use libtest_mimic::{Arguments, Failed, Trial};

/// A store to test on: new and empty for every case.
struct Store {
    name: &'static str,
    /// What it needs that this machine lacks, if so.
    lacks: fn() -> Option<&'static str>,
    /// A new one, in a folder that is deleted afterwards.
    start: fn(folder: &Path, case: usize) -> Started,
}

/// A store to connect to.
struct Started {
    url: String,
    /// Ends the store's server when it is dropped.
    _server: Option<Box<dyn std::any::Any>>,
}

impl Started {
    fn at(url: String) -> Self {
        Self { url, _server: None }
    }
}

const STORES: &[Store] = &[
    Store {
        name: "memory",
        lacks: || None,
        start: |_, case| Started::at(format!("memory:case-{case}")),
    },
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    Store {
        name: "sqlite",
        lacks: || None,
        start: |folder, case| Started::at(format!("sqlite:{}/case-{case}.db", folder.display())),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis",
        lacks: server::lacks_redis,
        start: |folder, _| redis(folder, ""),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis-plain",
        lacks: server::lacks_redis,
        start: |folder, _| redis(folder, "?layout=plain"),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis-sentinel",
        lacks: server::lacks_sentinel,
        start: |_, _| pool::SENTINELS.take(),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis-cluster",
        lacks: server::lacks_redis,
        start: |_, _| pool::CLUSTERS.take(),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis-redisson",
        lacks: server::lacks_redis,
        start: |folder, _| {
            let server = server::RedisServer::start(folder, &[]);
            let url = format!("{}?layout=redisson", server.url());
            Started {
                url,
                _server: Some(Box::new(server)),
            }
        },
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redlock",
        lacks: server::lacks_redis,
        start: |_, _| pool::FLEETS.take(),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redlock-without-tokens",
        lacks: server::lacks_redis,
        start: |_, _| {
            let mut started = pool::FLEETS.take();
            started.url.push_str("?tokens=off");
            started
        },
    },
    #[cfg(feature = "etcd")]
    Store {
        name: "etcd",
        lacks: || etcd::Version::System.lacks(),
        start: |_, _| etcd_pool::ONE.take(),
    },
    #[cfg(feature = "etcd")]
    Store {
        name: "etcd-three",
        lacks: || etcd::Version::System.lacks(),
        start: |_, _| etcd_pool::THREE.take(),
    },
    #[cfg(feature = "etcd")]
    Store {
        name: "etcd-3.5",
        lacks: || etcd::Version::Etcd35.lacks(),
        start: |_, _| etcd_pool::ONE_35.take(),
    },
    #[cfg(feature = "zookeeper")]
    Store {
        name: "zookeeper",
        lacks: zookeeper::lacks_zookeeper,
        start: |_, _| zookeeper_pool::ONE.take(),
    },
    #[cfg(feature = "zookeeper")]
    Store {
        name: "zookeeper-three",
        lacks: zookeeper::lacks_zookeeper,
        start: |_, _| zookeeper_pool::THREE.take(),
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres",
        lacks: postgres::lacks_postgres,
        start: |_, _| postgres_pool::PLAIN.take(),
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres-repeatable-read",
        lacks: postgres::lacks_postgres,
        start: |_, _| postgres_pool::REPEATABLE_READ.take(),
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres-serializable",
        lacks: postgres::lacks_postgres,
        start: |_, _| postgres_pool::SERIALIZABLE.take(),
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres-session",
        lacks: postgres::lacks_postgres,
        start: |_, _| postgres_pool::SESSION.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mysql",
        lacks: mysql::lacks_mysql,
        start: |_, _| mysql_pool::PLAIN.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mysql-repeatable-read",
        lacks: mysql::lacks_mysql,
        start: |_, _| mysql_pool::REPEATABLE_READ.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mysql-serializable",
        lacks: mysql::lacks_mysql,
        start: |_, _| mysql_pool::SERIALIZABLE.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mysql-session",
        lacks: mysql::lacks_mysql,
        start: |_, _| mysql_pool::SESSION.take(),
    },
];

/// A Redis server of its own, and its URL with these options.
#[cfg(feature = "redis")]
fn redis(folder: &Path, options: &str) -> Started {
    let server = server::RedisServer::start(folder, &[]);
    Started {
        url: format!("{}{options}", server.url()),
        _server: Some(Box::new(server)),
    }
}

fn main() -> ExitCode {
    if is_peer() {
        peer_main(None);
    }
    let mut arguments = Arguments::from_args();
    // Cases mostly wait; more of them at once than there are cores is faster
    // and also harder on them.
    arguments.test_threads = arguments.test_threads.or(Some(8));
    let trials = in_turn(STORES.iter().map(trials).collect());
    let code = libtest_mimic::run(&arguments, trials).exit_code();
    #[cfg(feature = "redis")]
    pool::end();
    #[cfg(feature = "etcd")]
    etcd_pool::end();
    #[cfg(feature = "zookeeper")]
    zookeeper_pool::end();
    #[cfg(feature = "postgres")]
    postgres_pool::end();
    #[cfg(feature = "mysql")]
    mysql_pool::end();
    code
}

/// One of each store after the other: so a store whose cases have to wait for
/// each other does not hold up the others.
fn in_turn(stores: Vec<Vec<Trial>>) -> Vec<Trial> {
    let mut stores: Vec<_> = stores.into_iter().map(Vec::into_iter).collect();
    let mut trials = Vec::new();
    loop {
        let before = trials.len();
        trials.extend(stores.iter_mut().filter_map(Iterator::next));
        if trials.len() == before {
            return trials;
        }
    }
}

fn trials(store: &'static Store) -> Vec<Trial> {
    if let Some(what) = (store.lacks)() {
        return vec![skipped(store, what)];
    }
    let promises = match promises(store) {
        Ok(promises) => promises,
        Err(error) => return vec![Trial::test(store.name, move || Err(Failed::from(error)))],
    };
    let trial = |(number, case): (usize, Case)| {
        let name = format!("{}::{}", store.name, case.name);
        match (case.needs)(&promises) {
            Ok(()) => Trial::test(name, move || run(store, number, &case)),
            Err(why) => Trial::test(name, || Ok(()))
                .with_kind(format!("{} {why}", store.name))
                .with_ignored_flag(true),
        }
    };
    cases().into_iter().enumerate().map(trial).collect()
}

/// A machine that lacks the store's server skips it visibly, unless it is meant
/// to have everything.
fn skipped(store: &Store, what: &'static str) -> Trial {
    let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
    Trial::test(store.name, move || Err(format!("{what} is missing").into()))
        .with_kind(format!("{what} is missing"))
        .with_ignored_flag(may_skip)
}

fn promises(store: &Store) -> Result<Promises, leasehold::Error> {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let started = (store.start)(folder.path(), usize::MAX);
    runtime().block_on(async { Ok(Bench::new(&started.url).await?.promises()) })
}

fn run(store: &Store, number: usize, case: &Case) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let started = (store.start)(folder.path(), number);
    let runtime = runtime();
    runtime.block_on(async {
        let bench = Bench::new(&started.url).await?;
        case.run(bench).await;
        Ok(())
    })
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads start")
}
