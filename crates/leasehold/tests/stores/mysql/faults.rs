//! Connections that end, servers that restart, clients that stand still.

use std::time::Duration;

use leasehold::Lost;
use leasehold::mysql::MySqlPool;
use sqlx_core::executor::Executor;

use super::{LONG, heard, inspector, lock, lost, mysql, queue_of, session, wait_for_lock};

#[testbed::test]
async fn a_hold_and_a_wait_survive_the_end_of_every_connection() {
    let (_folder, server) = mysql(&[]);
    let (one, other) = (
        session(&server.url(), "ttl=6s").await,
        session(&server.url(), "ttl=6s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    let inspector = inspector(&server.url()).await;
    queue_of(&inspector, "ledger", 2).await;
    for _ in 0..3 {
        server.end_connections();
        queue_of(&inspector, "ledger", 2).await;
        guard.check().unwrap();
    }
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(heard(waiting).await.token() > token);
}

#[testbed::test]
async fn connections_that_end_all_the_time_cost_no_lock_and_grant_none_twice() {
    let (_folder, server) = mysql(&[]);
    // Other processes stand for other connections here: each session has its own.
    let sessions = [
        session(&server.url(), "ttl=10s").await,
        session(&server.url(), "ttl=10s").await,
        session(&server.url(), "ttl=10s").await,
    ];
    let held = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = Vec::new();
    for session in sessions {
        let held = held.clone();
        tasks.push(tokio::spawn(async move {
            use std::sync::atomic::Ordering::SeqCst;
            let mut last = None;
            for _ in 0..15 {
                let guard = session.mutex("hot").lock_within(LONG).await.unwrap();
                assert_eq!(held.fetch_add(1, SeqCst), 0, "two hold it");
                assert!(Some(guard.token()) > last);
                last = Some(guard.token());
                tokio::task::yield_now().await;
                assert_eq!(held.fetch_sub(1, SeqCst), 1);
                guard.release().await.unwrap();
            }
        }));
    }
    let ending = async {
        loop {
            server.end_connections();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    let working = async {
        for task in tasks {
            heard(task).await;
        }
    };
    tokio::select! {
        () = working => {}
        () = ending => {}
    }
    let inspector = inspector(&server.url()).await;
    queue_of(&inspector, "hot", 0).await;
}

#[testbed::test]
async fn a_hold_and_a_wait_survive_a_crash_of_the_server() {
    let (_folder, mut server) = mysql(&[]);
    let (one, other) = (
        session(&server.url(), "ttl=20s").await,
        session(&server.url(), "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&server.url()).await, "ledger", 2).await;
    server.restart();
    queue_of(&inspector(&server.url()).await, "ledger", 2).await;
    guard.check().unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(heard(waiting).await.token() > token);
}

#[testbed::test]
async fn a_server_that_is_away_for_too_long_loses_the_lock_and_gives_it_again() {
    let (_folder, mut server) = mysql(&[]);
    let one = session(&server.url(), "ttl=1s").await;
    let guard = lock(&one, "ledger").await;
    server.kill();
    assert_eq!(lost(&guard).await, Lost::Deadline);
    server.restart();
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_server_that_stands_still_loses_the_lock_in_time() {
    use rustix::process::Signal;
    let (_folder, server) = mysql(&[]);
    let one = session(&server.url(), "ttl=1s").await;
    let guard = lock(&one, "ledger").await;
    server.signal(Signal::STOP);
    assert_eq!(lost(&guard).await, Lost::Deadline);
    server.signal(Signal::CONT);
    lock(&one, "ledger").await.release().await.unwrap();
}

#[testbed::test]
async fn what_is_deleted_by_hand_is_lost_or_queues_again() {
    let (_folder, server) = mysql(&[]);
    let (one, other) = (
        session(&server.url(), "ttl=2s").await,
        session(&server.url(), "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    let inspector = inspector(&server.url()).await;
    queue_of(&inspector, "ledger", 2).await;
    server.sql("delete from leasehold_claim order by place desc limit 1");
    queue_of(&inspector, "ledger", 2).await;
    server.sql("delete from leasehold_claim order by place limit 1");
    assert_eq!(lost(&guard).await, Lost::Gone);
    heard(waiting).await.release().await.unwrap();
    // A session without its row has a new one soon.
    let guard = lock(&one, "ledger").await;
    server.sql("delete from leasehold_session");
    assert_eq!(lost(&guard).await, Lost::Gone);
    lock(&one, "ledger").await.release().await.unwrap();
}

#[testbed::test]
async fn time_limits_of_the_server_do_not_reach_us() {
    let settings = [
        "innodb-lock-wait-timeout=0",
        "lock-wait-timeout=1",
        "idle-transaction-timeout=1",
        "max-statement-time=0.5",
    ];
    let (_folder, server) = mysql(&settings);
    let (one, other) = (
        session(&server.url(), "ttl=5s").await,
        session(&server.url(), "ttl=5s").await,
    );
    for _ in 0..20 {
        let guard = lock(&one, "ledger").await;
        let waiting = wait_for_lock(&other, "ledger");
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
    }
    // A row that is locked for longer than that, which the server counts.
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
    let (_folder, server) = mysql(&[]);
    let one = session(&server.url(), "ttl=20s").await;
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
    let other = session(&server.url(), "ttl=20s").await;
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
    let (_folder, server) = mysql(&[]);
    let one = session(&server.url(), "ttl=60s").await;
    let guard = lock(&one, "ledger").await;
    let first = guard.token();
    guard.release().await.unwrap();
    server.sql(
        "create table kept_claim as select * from leasehold_claim; \
         create table kept_meta as select * from leasehold_meta",
    );
    // There: another server's term begins, and it grants.
    server.sql("update leasehold_meta set server = 'another'");
    let elsewhere = session(&server.url(), "ttl=60s").await;
    let there = lock(&elsewhere, "ledger").await;
    assert!(there.token().get() > first.get() + (1 << 32));
    // And back, to one that has heard of the term but not of the grant.
    server.sql(
        "replace into leasehold_claim select * from kept_claim; \
         update leasehold_meta set server = 'another'",
    );
    let other = session(&server.url(), "ttl=60s").await;
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
    let (_folder, server) = mysql(&[]);
    let (one, other) = (
        session(&server.url(), "ttl=20s").await,
        session(&server.url(), "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    // The last renewals did not get to the server that takes writes now.
    server.sql(
        "update leasehold_meta set server = 'another'; update leasehold_session \
         set expires = utc_timestamp(6) - interval 1 second where id in \
         (select session from leasehold_claim)",
    );
    assert!(other.mutex("ledger").try_lock().await.unwrap().is_none());
    let left = "select count(*) from leasehold_session where expires > utc_timestamp(6)";
    assert_eq!(server.sql(left), "2");
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_renewal_that_a_failover_forgot_is_made_good() {
    let (_folder, server) = mysql(&[]);
    let one = session(&server.url(), "ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    server.sql(
        "update leasehold_meta set server = 'another'; update leasehold_session \
         set expires = utc_timestamp(6) - interval 1 second",
    );
    let renewed = "select count(*) from leasehold_session where expires > utc_timestamp(6)";
    testbed::wait_for("a renewal", || (server.sql(renewed) == "1").then_some(()));
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_row_that_stays_locked_keeps_nobody_from_opening_a_session() {
    let (_folder, server) = mysql(&[]);
    let dead = session(&server.url(), "ttl=1h").await;
    let _guard = lock(&dead, "ledger").await;
    server.sql("update leasehold_session set expires = utc_timestamp(6) - interval 1 hour");
    let others = MySqlPool::connect(&server.url()).await.unwrap();
    let mut blocker = others.begin().await.unwrap();
    (&mut *blocker)
        .execute("select * from leasehold_claim where name = 'ledger' and seat = 0 for update")
        .await
        .unwrap();
    let one = session(&server.url(), "ttl=2s").await;
    let guard = lock(&one, "other").await;
    guard.check().unwrap();
}

#[testbed::test]
async fn a_release_that_the_store_forgot_is_made_again() {
    let (_folder, server) = mysql(&[]);
    let one = session(&server.url(), "ttl=2s").await;
    let guard = lock(&one, "ledger").await;
    server.sql("create table kept as select * from leasehold_claim");
    guard.release().await.unwrap();
    server.sql("replace into leasehold_claim select * from kept");
    let other = session(&server.url(), "ttl=2s").await;
    lock(&other, "ledger").await.release().await.unwrap();
}
