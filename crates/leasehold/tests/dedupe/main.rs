//! One effect per message: marks in the user's own database, and many messages,
//! each delivered several times, to consumers that die and stop at any moment.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod broker;
mod consumer;
#[path = "../server/etcd.rs"]
mod etcd_server;
mod marks;
#[path = "../server/mysql.rs"]
mod mysql_server;
#[allow(dead_code, reason = "others use the rest of it")]
#[path = "../fence_resources/sql/place.rs"]
mod place;
#[path = "../server/postgres.rs"]
mod postgres_server;
#[path = "../server/mod.rs"]
mod server;
#[path = "../server/zookeeper.rs"]
mod zookeeper_server;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use sqlx_mysql::MySql;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use broker::Case;
use consumer::How;

/// For servers, however many are asked for.
const FEW: u64 = 60;

fn main() -> ExitCode {
    if consumer::is_one() {
        consumer::consume();
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        trial("sqlite::marks", None, || {
            let folder = tempfile::tempdir().unwrap();
            let url = place::sqlite(folder.path());
            runtime().block_on(marks::all::<Sqlite>(&url));
        }),
        trial("postgres::marks", postgres_server::lacks_postgres(), || {
            let folder = tempfile::tempdir().unwrap();
            let server = postgres_server::Postgres::start(folder.path(), &[]);
            runtime().block_on(marks::all::<Postgres>(&server.url()));
        }),
        trial("mysql::marks", mysql_server::lacks_mysql(), || {
            let folder = tempfile::tempdir().unwrap();
            let server = mysql_server::Mysql::start(folder.path(), &[]);
            runtime().block_on(marks::all::<MySql>(&server.url()));
        }),
        trial("sqlite::every_message_has_exactly_one_effect", None, || {
            let folder = tempfile::tempdir().unwrap();
            Case::new(sqlite_locks(folder.path()), place::sqlite(folder.path()))
                .every_message_has_exactly_one_effect::<Sqlite>("sqlite");
        }),
        trial(
            "sqlite::every_message_has_at_least_one_effect",
            None,
            || {
                let folder = tempfile::tempdir().unwrap();
                Case::new(sqlite_locks(folder.path()), place::sqlite(folder.path()))
                    .every_message_has_at_least_one_effect::<Sqlite>("sqlite");
            },
        ),
        trial("sqlite::without_any_of_this_it_is_seen", None, || {
            let folder = tempfile::tempdir().unwrap();
            let case = Case::new(sqlite_locks(folder.path()), place::sqlite(folder.path()));
            let (effects, _, figures) = case.effects::<Sqlite>("sqlite", How::Bare);
            assert!(!figures.too_often(&effects).is_empty(), "{effects:?}");
        }),
        trial("redis::a_few_messages", server::lacks_redis(), || {
            let folder = tempfile::tempdir().unwrap();
            let locks = server::RedisServer::start(folder.path(), &[]);
            a_few_messages(&locks.url());
        }),
        trial(
            "etcd::a_few_messages",
            etcd_server::Version::System.lacks(),
            || {
                let folder = tempfile::tempdir().unwrap();
                let version = etcd_server::Version::System;
                let locks = etcd_server::Etcd::start(folder.path(), version);
                a_few_messages(&locks.url());
            },
        ),
        trial(
            "zookeeper::a_few_messages",
            zookeeper_server::lacks_zookeeper(),
            || {
                let folder = tempfile::tempdir().unwrap();
                let locks = zookeeper_server::Zookeeper::start(folder.path());
                a_few_messages(&locks.url());
            },
        ),
        trial(
            "postgres::a_few_messages",
            postgres_server::lacks_postgres(),
            || {
                let folder = tempfile::tempdir().unwrap();
                let locks = postgres_server::Postgres::start(folder.path(), &[]);
                a_few_messages(&locks.url());
            },
        ),
        trial("mysql::a_few_messages", mysql_server::lacks_mysql(), || {
            let folder = tempfile::tempdir().unwrap();
            let locks = mysql_server::Mysql::start(folder.path(), &[]);
            a_few_messages(&locks.url());
        }),
        trial(
            "postgres::every_message_has_exactly_one_effect",
            postgres_server::lacks_postgres().or(server::lacks_redis()),
            || {
                let folder = tempfile::tempdir().unwrap();
                let locks = server::RedisServer::start(folder.path(), &[]);
                let database = tempfile::tempdir().unwrap();
                let database = postgres_server::Postgres::start(database.path(), &[]);
                let locks = format!("{}?ttl=1s", locks.url());
                Case::of(FEW, locks, database.url())
                    .every_message_has_exactly_one_effect::<Postgres>("postgres");
            },
        ),
        // A store that keeps no memos: only the marks count.
        trial(
            "mysql::every_message_has_exactly_one_effect",
            mysql_server::lacks_mysql().or(server::lacks_redis()),
            || {
                let folder = tempfile::tempdir().unwrap();
                let locks = server::RedisServer::start(folder.path(), &[]);
                let database = tempfile::tempdir().unwrap();
                let database = mysql_server::Mysql::start(database.path(), &[]);
                let locks = format!("{}?layout=plain&ttl=1s", locks.url());
                Case::of(FEW, locks, database.url())
                    .every_message_has_exactly_one_effect::<MySql>("mysql");
            },
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A few messages with locks in this store, and effects in a file: exactly one each
/// by the mark beside it, and at least one by the memo alone, if the store keeps it.
fn a_few_messages(locks: &str) {
    let locks = format!("{locks}?ttl=1s");
    let promises = runtime().block_on(async {
        let session = leasehold::connect(&locks).await.unwrap();
        session.promises()
    });
    let case =
        |folder: &tempfile::TempDir| Case::of(FEW / 3, locks.clone(), place::sqlite(folder.path()));
    let folder = tempfile::tempdir().unwrap();
    case(&folder).every_message_has_exactly_one_effect::<Sqlite>("sqlite");
    if promises.retention {
        let folder = tempfile::tempdir().unwrap();
        case(&folder).every_message_has_at_least_one_effect::<Sqlite>("sqlite");
    }
}

fn sqlite_locks(folder: &std::path::Path) -> String {
    format!("sqlite:{}?ttl=1s", folder.join("locks.db").display())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Skipped, visibly, where something is missing, unless it must run.
fn trial(name: &str, lacks: Option<&'static str>, run: fn()) -> Trial {
    let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
    let trial = Trial::test(name, move || match lacks {
        Some(what) => Err(Failed::from(format!("{what} is missing"))),
        None => {
            run();
            Ok(())
        }
    });
    trial.with_ignored_flag(lacks.is_some() && may_skip)
}
