//! What requests cost the server.

use std::time::Duration;

use leasehold::ErrorKind;
use leasehold::mysql::{MySqlPool, fence};

use super::{LONG, Site, heard, lock, mysql, mysql_with, queue_of, wait_for_lock};
use testbed::wait_for;

/// How often the server heard this.
pub(crate) fn said(server: &Site, text: &str) -> usize {
    let said = std::fs::read(server.mysql().data().join("said")).unwrap();
    String::from_utf8_lossy(&said).matches(text).count()
}

#[testbed::test]
async fn those_who_wait_for_a_transaction_look_less_and_less_often() {
    let server = mysql_with(&["general-log=1", "general-log-file=said"]);
    let one = server.session("ttl=60s").await;
    let guard = lock(&one, "ledger").await;
    let pool = MySqlPool::connect(&server.url()).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    fence(&guard, &mut tx).await.unwrap();
    server.sql("update leasehold_session set expires = utc_timestamp(6) - interval 1 second");
    let other = server.session("ttl=60s").await;
    let before = said(&server, "order by c.place");
    let waiting = wait_for_lock(&other, "ledger");
    let early = other.mutex("ledger");
    let early = early.lock_within(Duration::from_millis(1500)).await;
    assert_eq!(early.unwrap_err().kind(), ErrorKind::TimedOut);
    // Also at the dead.
    let looks = said(&server, "order by c.place") - before;
    assert!(looks < 450, "{looks}");
    tx.commit().await.unwrap();
    heard(waiting).await.release().await.unwrap();
}

#[testbed::test]
async fn a_lock_and_an_unlock_are_one_statement_each() {
    let server = mysql_with(&["general-log=1", "general-log-file=said"]);
    let one = server.session("ttl=1h").await;
    // The first one makes the lock's row, and with the second all statements are known.
    for _ in 0..2 {
        lock(&one, "ledger").await.release().await.unwrap();
    }
    let heard = || [" Query\t", " Prepare\t", " Execute\t"].map(|what| said(&server, what));
    let before = heard();
    for _ in 0..10 {
        lock(&one, "ledger").await.release().await.unwrap();
    }
    let after = heard();
    let more = [0, 1, 2].map(|what| after[what] - before[what]);
    assert_eq!(
        more,
        [0, 0, 20],
        "queries, preparations, uses of what is prepared"
    );
}

#[testbed::test]
async fn a_server_that_keeps_no_statements_is_told_them_anew() {
    let options = [
        "general-log=1",
        "general-log-file=said",
        "max-prepared-stmt-count=0",
    ];
    let server = mysql_with(&options);
    let one = server.session("ttl=1h").await;
    for _ in 0..2 {
        lock(&one, "ledger").await.release().await.unwrap();
    }
    let heard = || [" Query\t", " Prepare\t"].map(|what| said(&server, what));
    let before = heard();
    for _ in 0..10 {
        lock(&one, "ledger").await.release().await.unwrap();
    }
    let after = heard();
    assert_eq!([after[0] - before[0], after[1] - before[1]], [20, 0]);
}

#[testbed::test]
async fn one_look_tells_all_who_wait() {
    let server = mysql_with(&["general-log=1", "general-log-file=said"]);
    let (one, other) = (
        server.session("ttl=1h").await,
        server.session("ttl=3s").await,
    );
    let writer = one.rwlock("ledger").write().await.unwrap();
    let readers: Vec<_> = (0..40)
        .map(|_| {
            let lock = other.rwlock("ledger");
            tokio::spawn(async move { lock.read_within(LONG).await.unwrap() })
        })
        .collect();
    let inspector = server.inspector().await;
    queue_of(&inspector, "ledger", 41).await;
    // Not each of them looks, however long they wait: for two renewals here.
    let renewals = || said(&server, "set expires = utc_timestamp(6) + interval");
    let (before, first) = (said(&server, "order by c.place"), renewals());
    wait_for("two renewals", || (renewals() >= first + 2).then_some(()));
    let looks = said(&server, "order by c.place") - before;
    assert!(looks < 60, "{looks}");
    let before = said(&server, "order by c.place");
    writer.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(heard(reader).await);
    }
    let looks = said(&server, "order by c.place") - before;
    assert!(looks < 20, "{looks}");
}

#[testbed::test]
async fn a_lock_that_nobody_uses_leaves_nothing_behind_but_its_tokens() {
    let server = mysql();
    let one = server.session("ttl=1h").await;
    let first = lock(&one, "ledger").await;
    let kept = lock(&one, "kept").await;
    first.release().await.unwrap();
    // As of two days ago, and by a clock that was ahead.
    server.sql(
        "update leasehold_claim set since = since - interval 2 day, \
         place = place - 169200000000, drawn = 0",
    );
    let place = server.sql("select place from leasehold_claim where name = 'ledger'");
    let sweeping = async {
        let names = "select group_concat(name) from leasehold_claim";
        while server.sql(names) != "kept" {
            server.session("ttl=1h").await.close().await;
        }
    };
    tokio::time::timeout(LONG, sweeping).await.unwrap();
    kept.check().unwrap();
    assert_eq!(server.sql("select floor from leasehold_meta"), place);
    let far = 1_u64 << 60;
    server.sql(&format!("update leasehold_meta set floor = {far}"));
    assert!(lock(&one, "ledger").await.token().get() > far);
}
