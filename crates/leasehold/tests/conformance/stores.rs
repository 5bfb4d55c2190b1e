//! The stores, and the servers that they share.

use testbed::Lent;
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
use testbed::Pool;
#[cfg(feature = "etcd")]
use testbed::etcd::{self, Etcd};
#[cfg(feature = "mysql")]
use testbed::mysql::{Flavor, Mysql};
#[cfg(feature = "postgres")]
use testbed::postgres::{Postgres, lacks_postgres};
#[cfg(feature = "redis")]
use testbed::redis::{Cluster, Fleet, RedisServer, Sentinel, lacks_redis, lacks_sentinel};
#[cfg(feature = "zookeeper")]
use testbed::zookeeper::{Zookeeper, lacks_zookeeper};

#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::schemas::{Database, Schemas};
use crate::{Started, Store};

pub(crate) const STORES: &[Store] = &[
    Store {
        name: "memory",
        is_variant: false,
        lacks: || None,
        start: |_, case| started(format!("memory:case-{case}"), None::<Lent<()>>),
    },
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    Store {
        name: "sqlite",
        is_variant: false,
        lacks: || None,
        start: |folder, case| {
            let url = format!("sqlite:{}/case-{case}.db", folder.display());
            started(url, None::<Lent<()>>)
        },
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis",
        is_variant: false,
        lacks: lacks_redis,
        start: |_, _| redis(""),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis-plain",
        is_variant: false,
        lacks: lacks_redis,
        start: |_, _| redis("?layout=plain"),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis-redisson",
        is_variant: false,
        lacks: lacks_redis,
        start: |_, _| redis("?layout=redisson"),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis-sentinel",
        is_variant: true,
        lacks: lacks_sentinel,
        start: |_, _| pooled(&SENTINELS, Sentinel::url, ""),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redis-cluster",
        is_variant: true,
        lacks: lacks_redis,
        start: |_, _| pooled(&CLUSTERS, Cluster::url, ""),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redlock",
        is_variant: false,
        lacks: lacks_redis,
        start: |_, _| pooled(&FLEETS, Fleet::url, ""),
    },
    #[cfg(feature = "redis")]
    Store {
        name: "redlock-without-tokens",
        is_variant: true,
        lacks: lacks_redis,
        start: |_, _| pooled(&FLEETS, Fleet::url, "?tokens=off"),
    },
    #[cfg(feature = "etcd")]
    Store {
        name: "etcd",
        is_variant: false,
        lacks: || etcd::Version::System.lacks(),
        start: |_, _| pooled(&ETCD, Etcd::url, ""),
    },
    #[cfg(feature = "etcd")]
    Store {
        name: "etcd-three",
        is_variant: true,
        lacks: || etcd::Version::System.lacks(),
        start: |_, _| pooled(&ETCD_THREE, Etcd::url, ""),
    },
    #[cfg(feature = "etcd")]
    Store {
        name: "etcd-3.5",
        is_variant: true,
        lacks: || etcd::Version::Etcd35.lacks(),
        start: |_, _| pooled(&ETCD_35, Etcd::url, ""),
    },
    #[cfg(feature = "zookeeper")]
    Store {
        name: "zookeeper",
        is_variant: false,
        lacks: lacks_zookeeper,
        start: |_, _| pooled(&ZOOKEEPER, Zookeeper::url, ""),
    },
    #[cfg(feature = "zookeeper")]
    Store {
        name: "zookeeper-three",
        is_variant: true,
        lacks: lacks_zookeeper,
        start: |_, _| pooled(&ZOOKEEPER_THREE, Zookeeper::url, ""),
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres",
        is_variant: false,
        lacks: lacks_postgres,
        start: |_, _| POSTGRES.take(),
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres-repeatable-read",
        is_variant: true,
        lacks: lacks_postgres,
        start: |_, _| POSTGRES_REPEATABLE_READ.take(),
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres-serializable",
        is_variant: true,
        lacks: lacks_postgres,
        start: |_, _| POSTGRES_SERIALIZABLE.take(),
    },
    #[cfg(feature = "postgres")]
    Store {
        name: "postgres-session",
        is_variant: false,
        lacks: lacks_postgres,
        start: |_, _| POSTGRES_SESSION.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mariadb",
        is_variant: false,
        lacks: || Flavor::MariaDb.lacks(),
        start: |_, _| MARIADB.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mysql",
        is_variant: false,
        lacks: || Flavor::Mysql.lacks(),
        start: |_, _| MYSQL.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mariadb-repeatable-read",
        is_variant: true,
        lacks: || Flavor::MariaDb.lacks(),
        start: |_, _| MARIADB_REPEATABLE_READ.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mariadb-serializable",
        is_variant: true,
        lacks: || Flavor::MariaDb.lacks(),
        start: |_, _| MARIADB_SERIALIZABLE.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mysql-session",
        is_variant: true,
        lacks: || Flavor::Mysql.lacks(),
        start: |_, _| MYSQL_SESSION.take(),
    },
    #[cfg(feature = "mysql")]
    Store {
        name: "mariadb-session",
        is_variant: false,
        lacks: || Flavor::MariaDb.lacks(),
        start: |_, _| MARIADB_SESSION.take(),
    },
];

/// Servers that a case has for itself while it runs.
#[cfg(feature = "redis")]
mod redis_servers {
    use super::*;

    pub(super) static REDIS: Pool<RedisServer> = Pool::new(
        8,
        |folder| RedisServer::start(folder, &[]),
        RedisServer::wipe,
    );
    pub(super) static SENTINELS: Pool<Sentinel> = Pool::new(
        2,
        |folder| Sentinel::start(folder, &[]),
        |sentinel| sentinel.primary().wipe(),
    );
    pub(super) static CLUSTERS: Pool<Cluster> = Pool::new(2, Cluster::start, |cluster| {
        cluster.servers.iter().for_each(RedisServer::wipe);
    });
    pub(super) static FLEETS: Pool<Fleet> =
        Pool::new(8, |folder| Fleet::start(folder, 5), Fleet::wipe);
}
#[cfg(feature = "redis")]
use redis_servers::{CLUSTERS, FLEETS, REDIS, SENTINELS};

/// A Redis server, and its URL with these options.
#[cfg(feature = "redis")]
fn redis(options: &str) -> Started {
    pooled(&REDIS, RedisServer::url, options)
}

// Few at once: each server writes to the disk and waits for it.
#[cfg(feature = "etcd")]
static ETCD: Pool<Etcd> = etcd_pool(4, |folder| Etcd::start(folder, etcd::Version::System));
#[cfg(feature = "etcd")]
static ETCD_THREE: Pool<Etcd> =
    etcd_pool(1, |folder| Etcd::start_three(folder, etcd::Version::System));
#[cfg(feature = "etcd")]
static ETCD_35: Pool<Etcd> = etcd_pool(2, |folder| Etcd::start(folder, etcd::Version::Etcd35));

#[cfg(feature = "etcd")]
const fn etcd_pool(most: usize, start: fn(&std::path::Path) -> Etcd) -> Pool<Etcd> {
    Pool::new(most, start, Etcd::wipe)
}

#[cfg(feature = "zookeeper")]
static ZOOKEEPER: Pool<Zookeeper> = Pool::new(4, |folder| zookeeper(folder, 1), Zookeeper::wipe);
#[cfg(feature = "zookeeper")]
static ZOOKEEPER_THREE: Pool<Zookeeper> =
    Pool::new(1, |folder| zookeeper(folder, 3), Zookeeper::wipe);

#[cfg(feature = "zookeeper")]
fn zookeeper(folder: &std::path::Path, servers: usize) -> Zookeeper {
    // A stamp is spoilt when the server removes the empty lock, which it looks for
    // once a minute; wiping does that here.
    let never = "-Dznode.container.checkIntervalMs=86400000";
    Zookeeper::start_with(folder, servers, "", &[never])
}

#[cfg(feature = "postgres")]
mod postgres_servers {
    use super::*;

    const TABLES: &[&str] = &["claim", "session", "eviction"];

    pub(super) static POSTGRES: Schemas<Postgres> = Schemas::new(&[], "", TABLES);
    pub(super) static POSTGRES_REPEATABLE_READ: Schemas<Postgres> = Schemas::new(
        &["default_transaction_isolation=repeatable read"],
        "",
        TABLES,
    );
    pub(super) static POSTGRES_SERIALIZABLE: Schemas<Postgres> =
        Schemas::new(&["default_transaction_isolation=serializable"], "", TABLES);
    // One case waits for a hundred names in one session.
    pub(super) static POSTGRES_SESSION: Schemas<Postgres> = Schemas::new(
        &["default_transaction_isolation=serializable"],
        "&mode=session&connections=120",
        &["line", "note", "eviction"],
    );

    impl Database for Postgres {
        fn start(folder: &std::path::Path, settings: &[&str]) -> Self {
            Self::start(folder, settings)
        }

        fn url(&self, schema: usize) -> String {
            format!("{}?schema=schema{schema}", self.url())
        }

        /// A request of the last case may still be under way in the server, and has its
        /// tables in another order.
        fn wipe(&self, schema: usize, tables: &[&str]) {
            let tables = tables.iter().map(|table| format!("schema{schema}.{table}"));
            let tables = tables.collect::<Vec<_>>().join(", ");
            testbed::wait_for("tables that no request uses", || {
                match self.try_sql(&format!("truncate {tables}")) {
                    Ok(_) => Some(()),
                    Err(error) if error.contains("deadlock detected") => None,
                    Err(error) => panic!("{tables}: {error}"),
                }
            });
        }
    }
}
#[cfg(feature = "postgres")]
use postgres_servers::{
    POSTGRES, POSTGRES_REPEATABLE_READ, POSTGRES_SERIALIZABLE, POSTGRES_SESSION,
};

#[cfg(feature = "mysql")]
mod mysql_servers {
    use super::*;

    const TABLES: &[&str] = &["claim", "session", "eviction"];
    const READ_COMMITTED: &[&str] = &["transaction-isolation=READ-COMMITTED"];

    pub(super) static MARIADB: Schemas<Mysql> = Schemas::new(READ_COMMITTED, "", TABLES);
    pub(super) static MARIADB_REPEATABLE_READ: Schemas<Mysql> = Schemas::new(
        &["transaction-isolation=REPEATABLE-READ", "autocommit=0"],
        "",
        TABLES,
    );
    pub(super) static MARIADB_SERIALIZABLE: Schemas<Mysql> =
        Schemas::new(&["transaction-isolation=SERIALIZABLE"], "", TABLES);
    pub(super) static MARIADB_SESSION: Schemas<Mysql> = Schemas::new(&[], "&mode=session", TABLES);
    pub(super) static MYSQL: Schemas<RealMysql> = Schemas::new(READ_COMMITTED, "", TABLES);
    pub(super) static MYSQL_SESSION: Schemas<RealMysql> =
        Schemas::new(&[], "&mode=session", TABLES);

    /// MySQL itself, not MariaDB.
    pub(super) struct RealMysql(Mysql);

    impl Database for Mysql {
        fn start(folder: &std::path::Path, settings: &[&str]) -> Self {
            Self::start(folder, settings)
        }

        fn url(&self, schema: usize) -> String {
            format!("{}?schema=schema{schema}", self.url())
        }

        fn wipe(&self, schema: usize, tables: &[&str]) {
            let tables = tables.iter();
            let wipe = tables.map(|table| format!("delete from schema{schema}_{table}"));
            self.sql(&wipe.collect::<Vec<_>>().join("; "));
        }
    }

    impl Database for RealMysql {
        fn start(folder: &std::path::Path, settings: &[&str]) -> Self {
            Self(Mysql::start_flavor(Flavor::Mysql, folder, settings))
        }

        fn url(&self, schema: usize) -> String {
            Database::url(&self.0, schema)
        }

        fn wipe(&self, schema: usize, tables: &[&str]) {
            self.0.wipe(schema, tables);
        }
    }
}
#[cfg(feature = "mysql")]
use mysql_servers::{
    MARIADB, MARIADB_REPEATABLE_READ, MARIADB_SERIALIZABLE, MARIADB_SESSION, MYSQL, MYSQL_SESSION,
};

/// Ends the servers with schemas: statics are never dropped.
pub(crate) fn end() {
    #[cfg(feature = "postgres")]
    for schemas in [
        &POSTGRES,
        &POSTGRES_REPEATABLE_READ,
        &POSTGRES_SERIALIZABLE,
        &POSTGRES_SESSION,
    ] {
        schemas.end();
    }
    #[cfg(feature = "mysql")]
    for schemas in [
        &MARIADB,
        &MARIADB_REPEATABLE_READ,
        &MARIADB_SERIALIZABLE,
        &MARIADB_SESSION,
    ] {
        schemas.end();
    }
    #[cfg(feature = "mysql")]
    for schemas in [&MYSQL, &MYSQL_SESSION] {
        schemas.end();
    }
}

/// A server of the pool, and its URL with these options.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
fn pooled<T: Send>(pool: &'static Pool<T>, url: fn(&T) -> String, options: &str) -> Started {
    let server = pool.take();
    started(format!("{}{options}", url(&server)), Some(server))
}

fn started<T: Send + 'static>(url: String, server: Option<Lent<T>>) -> Started {
    Started {
        url,
        _server: server.map(|server| Box::new(server) as Box<dyn std::any::Any>),
    }
}
