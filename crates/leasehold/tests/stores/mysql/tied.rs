//! `mode=session`: sessions that live as long as a connection.

use std::time::Duration;

use leasehold::Lost;
use leasehold::mysql::MySqlPool;
use sqlx_core::executor::Executor;

use super::cost::said;
use super::{heard, lock, lost, mysql, mysql_with, queue_of, session, wait_for_lock};
use crate::sql::way::Fault;
use testbed::wait_for;

const MODE: &str = "ttl=20s&mode=session";

#[testbed::test]
async fn whoever_is_next_is_woken() {
    let server = mysql_with(&["general-log=1", "general-log-file=said"]);
    let said = |text: &str| said(&server, text);
    let [one, other] = server.sessions(MODE).await;
    let inspector = server.inspector().await;
    let mut guard = lock(&one, "ledger").await;
    for (round, next) in [&other, &one, &other].into_iter().enumerate() {
        let waiting = wait_for_lock(next, "ledger");
        queue_of(&inspector, "ledger", 2).await;
        let dozes = said("select sleep(");
        guard.release().await.unwrap();
        guard = heard(waiting).await;
        assert_eq!(said("kill query"), round + 1);
        // It woke up, for it dozes again.
        wait_for("another doze", || {
            (said("select sleep(") > dozes).then_some(())
        });
    }
    // Nobody waits, nobody is woken.
    guard.release().await.unwrap();
    assert_eq!(said("kill query"), 3);
}

#[testbed::test]
async fn the_end_of_the_connection_is_the_end_of_the_session() {
    let server = mysql();
    let one = server.session("ttl=20s&mode=session").await;
    let guard = lock(&one, "ledger").await;
    let tie = "select is_used_lock(concat('leasehold.', lower(hex(id)))) from leasehold_session";
    let tie = server.sql(tie);
    // One that is not tied waits in the same line.
    let other = server.session("ttl=20s").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&server.inspector().await, "ledger", 2).await;
    server.sql(&format!("kill {tie}"));
    let next = heard(waiting).await;
    assert!(next.token() > guard.token());
    assert_eq!(lost(&guard).await, Lost::Gone);
    next.release().await.unwrap();
    lock(&one, "ledger").await.release().await.unwrap();
}

#[testbed::test]
async fn a_renewal_that_something_was_in_the_way_of_does_not_cost_the_tie() {
    let server = mysql();
    let one = server.session("ttl=6s&mode=session").await;
    let guard = lock(&one, "ledger").await;
    let others = MySqlPool::connect(&server.url()).await.unwrap();
    let mut blocker = others.begin().await.unwrap();
    (&mut *blocker)
        .execute("select id from leasehold_session for update")
        .await
        .unwrap();
    let renewal = wait_for("a renewal that is kept waiting", || {
        let waits = "select id from information_schema.processlist \
                     where info like '%set expires = utc_timestamp%' \
                     and id <> connection_id() and db = database()";
        Some(server.sql(waits)).filter(|id| !id.is_empty())
    });
    server.sql(&format!("kill query {renewal}"));
    let before = guard.valid_for();
    blocker.rollback().await.unwrap();
    wait_for("a renewal", || (guard.valid_for() > before).then_some(()));
    guard.check().unwrap();
    let tie = "select is_used_lock(concat('leasehold.', lower(hex(id)))) from leasehold_session";
    assert_eq!(server.sql(tie), renewal);
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_slow_renewal_does_not_cost_the_tie() {
    let server = mysql();
    let (way, far) = server.far("ttl=6s&mode=session").await;
    let guard = lock(&far, "ledger").await;
    way.arm("Keeps a lease", Fault::AnswerHeldBack);
    way.fired().await;
    // The watchdog gave it a second, and tries again.
    let late = Duration::from_millis(2500);
    wait_for("a late answer", || (guard.valid_for() < late).then_some(()));
    way.release();
    wait_for("a renewal", || (guard.valid_for() > late).then_some(()));
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_restart_of_the_server_is_told_and_ends_the_session() {
    let mut server = mysql_with(&[]);
    let one = server.session("ttl=60s&mode=session").await;
    let guard = lock(&one, "ledger").await;
    server.restart();
    // Long before its lease is over.
    assert_eq!(lost(&guard).await, Lost::Gone);
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}

#[testbed::test]
async fn a_closed_session_leaves_no_connection_and_no_lock_behind() {
    let server = mysql_with(&[]);
    let one = server.session(MODE).await;
    drop(lock(&one, "ledger").await);
    one.close().await;
    wait_for("the end of its connections", || {
        let open = "select count(*) from information_schema.processlist \
                    where db = 'shop' and id <> connection_id()";
        (server.sql(open) == "0").then_some(())
    });
    assert_eq!(server.sql("select count(*) from leasehold_session"), "0");
}

#[testbed::test]
async fn a_server_that_takes_no_writes_any_more_ends_the_session() {
    let server = mysql_with(&[]);
    server.sql("create user app@'127.0.0.1'; grant all on shop.* to app@'127.0.0.1'");
    // Some may write all the same, and hear of it in another way.
    let (app, root) = (
        session(&server.url_as("app"), "ttl=9s&mode=session").await,
        server.session("ttl=9s&mode=session").await,
    );
    let guards = [lock(&app, "ledger").await, lock(&root, "other").await];
    server.sql("set global read_only = 1");
    for guard in &guards {
        // At the next renewal, long before the lease is over.
        assert_eq!(lost(guard).await, Lost::Gone);
    }
    server.sql("set global read_only = 0");
    assert!(lock(&app, "ledger").await.token() > guards[0].token());
    assert!(lock(&root, "other").await.token() > guards[1].token());
}

#[testbed::test]
async fn a_limit_of_the_server_for_statements_does_not_end_a_doze() {
    let settings = [
        "general-log=1",
        "general-log-file=said",
        "max-statement-time=1",
    ];
    let server = mysql_with(&settings);
    let one = server.session(MODE).await;
    let guard = lock(&one, "ledger").await;
    wait_for("the end of a doze", || {
        (said(&server, "select sleep(") > 1).then_some(())
    });
    assert_eq!(said(&server, "select get_lock('leasehold+"), 1);
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_doze_that_was_ended_is_begun_again() {
    let mut server = mysql_with(&["general-log=1", "general-log-file=said"]);
    // It renews long after this test is over.
    let other = server.session("ttl=1h&mode=session").await;
    let bell = "select is_used_lock(concat('leasehold+', lower(hex(id)))) from leasehold_session \
                where tied";
    let first = server.sql(bell);
    server.sql(&format!("kill {first}"));
    wait_for("another connection that dozes", || {
        let next = server.sql(bell);
        (next != "NULL" && next != first).then_some(())
    });
    let tied = server.session("ttl=1h&mode=session").await;
    let guard = lock(&tied, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&server.inspector().await, "ledger", 2).await;
    guard.release().await.unwrap();
    let guard = heard(waiting).await;
    assert_eq!(said(&server, "kill query"), 1);
    server.restart();
    assert_eq!(lost(&guard).await, Lost::Gone);
}

#[testbed::test]
async fn the_server_ends_the_session_of_a_process_that_stands_still() {
    let server = mysql();
    let url = server.url();
    // A runtime that nobody drives on: its connections stay, and are silent.
    let stopped = std::thread::spawn(move || {
        let builder = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = builder.unwrap();
        let held = runtime.block_on(async {
            let session = session(&url, "ttl=3s&mode=session").await;
            let guard = lock(&session, "ledger").await;
            (session, guard)
        });
        (runtime, held)
    });
    let (runtime, held) = stopped.join().unwrap();
    // Its row lasts for longer, so that nothing but the end of its connection frees it.
    server.sql("update leasehold_session set expires = utc_timestamp(6) + interval 1 hour");
    let other = server.session("ttl=20s").await;
    assert!(lock(&other, "ledger").await.token() > held.1.token());
    runtime.shutdown_background();
}
