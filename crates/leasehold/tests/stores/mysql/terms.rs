//! Terms: what a failover forgot does not come twice.

use leasehold::mysql::MySqlPool;
use sqlx_core::executor::Executor;

use super::{heard, lock, mysql, wait_for_lock};
use crate::sql::way::Fault;
use testbed::wait_for;

#[testbed::test]
async fn an_order_that_was_drawn_before_the_term_began_is_not_granted_in_it() {
    let server = mysql();
    let (way, one) = server.far("ttl=1h").await;
    // It has heard of a term, in which the lock was granted, and relies on it.
    server.sql("update leasehold_meta set term = 1");
    for _ in 0..2 {
        lock(&one, "ledger").await.release().await.unwrap();
    }
    let far = 1_u64 << 60;
    // After a failover to a server that has heard nothing of it, and met nobody.
    server.sql(&format!(
        "update leasehold_claim set place = {far}, drawn = {far}, term = 0; \
         update leasehold_meta set server = 'another', term = 0"
    ));
    way.arm("Takes a lock", Fault::AnswerHeldBack);
    let waiting = wait_for_lock(&one, "ledger");
    way.fired().await;
    let others = MySqlPool::connect(&server.url()).await.unwrap();
    let mut blocker = others.begin().await.unwrap();
    (&mut *blocker)
        .execute("select * from leasehold_claim where name = 'ledger' and seat = 0 for update")
        .await
        .unwrap();
    way.release();
    wait_for("one that draws an order", || {
        let draws = "select count(*) from information_schema.processlist where \
                     id <> connection_id() and db = database() and info like 'insert into%on duplicate key update%'";
        (server.sql(draws) == "1").then_some(())
    });
    // Another begins a term of the same number.
    let _begins = server.session("ttl=1h").await;
    assert_eq!(server.sql("select term from leasehold_meta"), "1");
    blocker.rollback().await.unwrap();
    assert!(heard(waiting).await.token().get() > far + (1 << 32));
}

#[testbed::test]
async fn after_a_failover_to_a_slower_clock_the_dead_stay_no_longer() {
    let server = mysql();
    // It renews long after this test is over.
    let dead = server.session("ttl=1h").await;
    let left = lock(&dead, "ledger").await;
    server.sql(
        "update leasehold_session set expires = utc_timestamp(6) + interval 1 hour, \
         ttl = 1000000; update leasehold_meta set server = 'another'",
    );
    let one = server.session("ttl=1h").await;
    assert!(lock(&one, "ledger").await.token() > left.token());
}

#[testbed::test]
async fn whoever_was_granted_a_lock_in_a_term_tells_the_next_server_of_it() {
    let server = mysql();
    let one = server.session("ttl=1h").await;
    lock(&one, "ledger").await.release().await.unwrap();
    server.sql(
        "create table kept_claim as select * from leasehold_claim; \
         create table kept_meta as select * from leasehold_meta",
    );
    // There: another begins the term, and no connection of the first one breaks.
    server.sql("update leasehold_meta set server = 'another'");
    let _begins = server.session("ttl=1h").await;
    let guard = lock(&one, "ledger").await;
    let there = guard.token();
    guard.release().await.unwrap();
    // And back, to one that has heard of nothing.
    server.sql(
        "replace into leasehold_claim select * from kept_claim; \
         replace into leasehold_meta select * from kept_meta",
    );
    assert!(lock(&one, "ledger").await.token() > there);
}
