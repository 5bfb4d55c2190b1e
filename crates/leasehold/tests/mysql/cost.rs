//! What requests cost the server.

use super::{lock, mysql, session};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_try_writes_nothing_and_a_session_has_few_connections() {
    let Some((_folder, server)) = mysql(&[]) else {
        return;
    };
    let (one, other) = (
        session(&server.url(), "ttl=1h").await,
        session(&server.url(), "ttl=1h").await,
    );
    let _guard = lock(&one, "ledger").await;
    // Where the log of changes ends.
    let end = || server.sql("show global status like 'Innodb_lsn_current'");
    let mutex = other.mutex("ledger");
    assert!(mutex.try_lock().await.unwrap().is_none());
    // Others than we write now and then.
    let mut quiet_rounds = 0;
    for _ in 0..10 {
        let before = end();
        for _ in 0..50 {
            assert!(mutex.try_lock().await.unwrap().is_none());
        }
        quiet_rounds += u32::from(before == end());
    }
    assert!(quiet_rounds >= 5, "{quiet_rounds}");
    let connections = "select count(*) from information_schema.processlist where db = 'shop' \
                       and id <> connection_id()";
    assert!(server.sql(connections).parse::<u32>().unwrap() <= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_and_an_unlock_are_one_statement_each() {
    let Some((_folder, server)) = mysql(&["general-log=1", "general-log-file=said"]) else {
        return;
    };
    let one = session(&server.url(), "ttl=1h").await;
    lock(&one, "ledger").await.release().await.unwrap();
    let begun = || {
        let said = std::fs::read(server.data().join("said")).unwrap();
        let said = String::from_utf8_lossy(&said).into_owned();
        said.matches(" Query\t").count()
    };
    let before = begun();
    for _ in 0..10 {
        lock(&one, "ledger").await.release().await.unwrap();
    }
    assert_eq!(begun() - before, 20);
}
