//! Connections that end, servers that restart, clients that stand still.

use leasehold::Lost;
use leasehold::mysql::MySqlPool;
use sqlx_core::executor::Executor;

use super::{heard, lock, lost, mysql, mysql_with, wait_for_lock};

#[testbed::test]
async fn a_row_that_is_locked_for_longer_than_the_server_allows_is_waited_for() {
    let settings = [
        "innodb-lock-wait-timeout=0",
        "lock-wait-timeout=1",
        "idle-transaction-timeout=1",
        "max-statement-time=0.5",
    ];
    let server = mysql_with(&settings);
    let one = server.session("ttl=20s").await;
    lock(&one, "ledger").await.release().await.unwrap();
    // Which the server counts.
    let others = MySqlPool::connect(&server.url()).await.unwrap();
    let mut blocker = others.begin().await.unwrap();
    for statement in [
        "set session idle_transaction_timeout = 0",
        "select * from leasehold_claim where seat = 0 for update",
    ] {
        (&mut *blocker).execute(statement).await.unwrap();
    }
    let waiting = wait_for_lock(&one, "ledger");
    testbed::wait_for("a statement that takes long", || {
        let slow = "select count(*) from information_schema.processlist \
                    where id <> connection_id() and time_ms > 1000 and info like '%claim%'";
        (server.sql(slow) == "1").then_some(())
    });
    blocker.rollback().await.unwrap();
    heard(waiting).await.release().await.unwrap();
}

#[testbed::test]
async fn after_a_failover_the_first_grant_is_above_all_before_it() {
    let server = mysql();
    let one = server.session("ttl=20s").await;
    let far = 1_u64 << 60;
    lock(&one, "ledger").await.release().await.unwrap();
    let new = lock(&one, "new").await;
    server.sql(&format!("update leasehold_claim set drawn = {far}"));
    let guard = lock(&one, "ledger").await;
    assert!(guard.token().get() > far);
    // As it looks on a replica which had not got the last grants. An enqueue is
    // the first that the new server hears of us.
    server.sql(&format!(
        "update leasehold_claim set place = {far}, drawn = {far}, \
         ticket = null; delete from leasehold_claim where name = 'new'; \
         update leasehold_meta set server = 'another'"
    ));
    let other = server.session("ttl=20s").await;
    let again = lock(&other, "ledger").await;
    assert!(again.token() > guard.token());
    // Its clock may be behind the other's by an hour.
    let again = lock(&other, "new").await;
    assert!(again.token().get() > new.token().get() + 3_600_000_000);
    server.end_connections();
    assert_eq!(lost(&guard).await, Lost::Gone);
}

#[testbed::test]
async fn tokens_grow_also_when_a_failover_leads_back() {
    let server = mysql();
    let one = server.session("ttl=60s").await;
    let guard = lock(&one, "ledger").await;
    let first = guard.token();
    guard.release().await.unwrap();
    server.sql(
        "create table kept_claim as select * from leasehold_claim; \
         create table kept_meta as select * from leasehold_meta",
    );
    // There: another server's term begins, and it grants.
    server.sql("update leasehold_meta set server = 'another'");
    let elsewhere = server.session("ttl=60s").await;
    let there = lock(&elsewhere, "ledger").await;
    assert!(there.token().get() > first.get() + (1 << 32));
    // And back, to one that has heard of the term but not of the grant.
    server.sql(
        "replace into leasehold_claim select * from kept_claim; \
         update leasehold_meta set server = 'another'",
    );
    let other = server.session("ttl=60s").await;
    let back = lock(&other, "ledger").await;
    let token = back.token();
    assert!(token > there.token());
    back.release().await.unwrap();
    // And back to one that has heard of nothing: those who were there tell it.
    server.sql(
        "replace into leasehold_claim select * from kept_claim; \
         replace into leasehold_meta select * from kept_meta",
    );
    let again = lock(&other, "ledger").await;
    assert!(again.token() > token);
}

#[testbed::test]
async fn after_a_failover_nobody_is_taken_for_dead_at_once() {
    let server = mysql();
    let [one, other] = server.sessions("ttl=20s").await;
    let guard = lock(&one, "ledger").await;
    // The last renewals did not get to the server that takes writes now.
    server.sql(
        "begin; update leasehold_meta set server = 'another'; update leasehold_session \
         set expires = utc_timestamp(6) - interval 1 second where id in \
         (select session from leasehold_claim); commit",
    );
    assert!(other.mutex("ledger").try_lock().await.unwrap().is_none());
    let left = "select count(*) from leasehold_session where expires > utc_timestamp(6)";
    assert_eq!(server.sql(left), "2");
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_renewal_that_a_failover_forgot_is_made_good() {
    let server = mysql();
    let one = server.session("ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    server.sql(
        "begin; update leasehold_meta set server = 'another'; update leasehold_session \
         set expires = utc_timestamp(6) - interval 1 second; commit",
    );
    let renewed = "select count(*) from leasehold_session where expires > utc_timestamp(6)";
    testbed::wait_for("a renewal", || (server.sql(renewed) == "1").then_some(()));
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_row_that_stays_locked_keeps_nobody_from_opening_a_session() {
    let server = mysql();
    let dead = server.session("ttl=1h").await;
    let _guard = lock(&dead, "ledger").await;
    server.sql("update leasehold_session set expires = utc_timestamp(6) - interval 1 hour");
    let others = MySqlPool::connect(&server.url()).await.unwrap();
    let mut blocker = others.begin().await.unwrap();
    (&mut *blocker)
        .execute("select * from leasehold_claim where name = 'ledger' and seat = 0 for update")
        .await
        .unwrap();
    let one = server.session("ttl=2s").await;
    let guard = lock(&one, "other").await;
    guard.check().unwrap();
}

#[testbed::test]
async fn a_release_that_the_store_forgot_is_made_again() {
    let server = mysql();
    let one = server.session("ttl=2s").await;
    let guard = lock(&one, "ledger").await;
    server.sql("create table kept as select * from leasehold_claim");
    guard.release().await.unwrap();
    server.sql("replace into leasehold_claim select * from kept");
    let other = server.session("ttl=2s").await;
    lock(&other, "ledger").await.release().await.unwrap();
}
