//! What requests cost the server.

use super::Kind;
use crate::steps::lock;

cases! {
    a_failed_try_writes_nothing_and_a_session_has_few_connections,
}

async fn a_failed_try_writes_nothing_and_a_session_has_few_connections(kind: Kind) {
    let settings: &[&str] = kind.pick(&["autovacuum=off"], &[]);
    let site = kind.alone(settings);
    let [one, other] = site.sessions("ttl=1h").await;
    let _guard = lock(&one, "ledger").await;
    // Where the log of changes ends.
    let end = || {
        site.sql(kind.pick(
            "select pg_current_wal_insert_lsn()",
            "show global status like 'Innodb%lsn_current'",
        ))
    };
    let mutex = other.mutex("ledger");
    assert!(mutex.try_lock().await.unwrap().is_none());
    // Others than we write now and then, such as a checkpointer.
    let mut quiet_rounds = 0;
    for _ in 0..10 {
        let before = end();
        for _ in 0..50 {
            assert!(mutex.try_lock().await.unwrap().is_none());
        }
        quiet_rounds += u32::from(before == end());
    }
    assert!(quiet_rounds >= 5, "{quiet_rounds}");
    let connections = kind.pick(
        "select count(*) from pg_stat_activity where datname = current_database() \
         and pid <> pg_backend_pid()",
        "select count(*) from information_schema.processlist where db = database() \
         and id <> connection_id()",
    );
    assert!(site.sql(connections).parse::<u32>().unwrap() <= 4);
}
