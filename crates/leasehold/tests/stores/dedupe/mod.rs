//! One effect per message: marks in the user's own database, and many messages,
//! each delivered several times, to consumers that die and stop at any moment.

mod broker;
mod consumer;
mod marks;

use sqlx_mysql::MySql;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use broker::Case;
use consumer::How;

use crate::fence::place;
use crate::pools::{MYSQL, POSTGRES, REDIS};

/// For servers, however many are asked for.
const FEW: u64 = 60;

/// Works as one of the consumers, if this is one.
pub(crate) fn play() -> bool {
    let is_one = consumer::is_one();
    if is_one {
        consumer::consume();
    }
    is_one
}

mod sqlite {
    use super::*;

    #[testbed::test]
    async fn marks() {
        let folder = tempfile::tempdir().unwrap();
        marks::all::<Sqlite>(&place::sqlite(folder.path())).await;
    }

    #[testbed::test]
    fn every_message_has_exactly_one_effect() {
        let folder = tempfile::tempdir().unwrap();
        Case::new(sqlite_locks(folder.path()), place::sqlite(folder.path()))
            .every_message_has_exactly_one_effect::<Sqlite>("sqlite");
    }

    #[testbed::test]
    fn every_message_has_at_least_one_effect() {
        let folder = tempfile::tempdir().unwrap();
        Case::new(sqlite_locks(folder.path()), place::sqlite(folder.path()))
            .every_message_has_at_least_one_effect::<Sqlite>("sqlite");
    }

    #[testbed::test]
    fn without_any_of_this_it_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let case = Case::new(sqlite_locks(folder.path()), place::sqlite(folder.path()));
        let (effects, _, figures) = case.effects::<Sqlite>("sqlite", How::Bare);
        assert!(!figures.too_often(&effects).is_empty(), "{effects:?}");
    }
}

mod postgres {
    use super::*;

    #[testbed::test]
    async fn marks() {
        let server = POSTGRES.take();
        marks::all::<Postgres>(&server.url()).await;
    }

    #[testbed::test]
    fn a_few_messages() {
        super::a_few_messages(&POSTGRES.take().url());
    }

    #[testbed::test]
    fn every_message_has_exactly_one_effect() {
        let (database, locks) = (POSTGRES.take(), REDIS.take());
        let locks = format!("{}?ttl=1s", locks.url());
        Case::of(FEW, locks, database.url())
            .every_message_has_exactly_one_effect::<Postgres>("postgres");
    }
}

mod mysql {
    use super::*;

    #[testbed::test]
    async fn marks() {
        let server = MYSQL.take();
        marks::all::<MySql>(&server.url()).await;
    }

    #[testbed::test]
    fn a_few_messages() {
        super::a_few_messages(&MYSQL.take().url());
    }

    /// The lock's store keeps no memos: only the marks count.
    #[testbed::test]
    fn every_message_has_exactly_one_effect() {
        let (database, locks) = (MYSQL.take(), REDIS.take());
        let locks = format!("{}?layout=plain&ttl=1s", locks.url());
        Case::of(FEW, locks, database.url()).every_message_has_exactly_one_effect::<MySql>("mysql");
    }
}

mod redis {
    use super::*;

    #[testbed::test]
    fn a_few_messages() {
        super::a_few_messages(&REDIS.take().url());
    }
}

mod etcd {
    use testbed::etcd::Etcd;

    use crate::ensemble::Ensemble;

    #[testbed::test]
    fn a_few_messages() {
        super::a_few_messages(&Etcd::one().url());
    }
}

mod zookeeper {
    use testbed::zookeeper::Zookeeper;

    use crate::ensemble::Ensemble;

    #[testbed::test]
    fn a_few_messages() {
        super::a_few_messages(&Zookeeper::one().url());
    }
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
