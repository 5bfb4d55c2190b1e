//! `mode=session`: tasks that look elsewhere, connections that fall silent, and a
//! server that waits for a standby.

use std::time::{Duration, Instant};

use leasehold::{Guard, Lost, Session};

use super::{
    heard, inspector, lock, lost, postgres, postgres_with, queue_of, session, wait_for_lock,
};
use crate::sql::way::{FAULTS, Fault, Way};
use testbed::wait_for;

async fn far(way: &Way, ttl: &str) -> Session {
    let options = format!("mode=session&ttl={ttl}&sslmode=disable");
    session(&way.url(), &options).await
}

/// Checks all the time that it is held.
async fn stays_held(guard: &Guard, time: Duration) {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[testbed::test]
async fn a_request_that_nobody_drives_on_holds_up_no_renewal() {
    let server = postgres();
    let way = Way::to(&server.url()).await;
    let one = far(&way, "3s").await;
    let guard = lock(&one, "held").await;
    // Polled once, as in a `select!` whose other arm then works for long. The
    // first is under way, the others stand behind it. No answer is there before
    // all have been asked for, however slow this task is.
    way.arm(".take(", Fault::AnswerHeldBack);
    let mutexes = ["a", "b", "c"].map(|name| one.mutex(name));
    let mut asking: Vec<_> = mutexes.iter().map(|one| Box::pin(one.lock())).collect();
    for request in &mut asking {
        tokio::select! {
            biased;
            _ = request => panic!("its answer is held back"),
            () = std::future::ready(()) => {}
        }
    }
    way.fired().await;
    way.release();
    stays_held(&guard, Duration::from_secs(6)).await;
    for request in asking {
        request.await.unwrap().release().await.unwrap();
    }
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_side_connection_that_falls_silent_costs_its_own_lock_only() {
    let server = postgres();
    let way = Way::to(&server.url()).await;
    let far = far(&way, "4s").await;
    let near = server.session("mode=session").await;
    let free = lock(&far, "free").await;
    let first = lock(&near, "waited for").await;
    let waiting = wait_for_lock(&far, "waited for");
    let inspector = inspector(&format!("{}?mode=session", server.url())).await;
    queue_of(&inspector, "waited for", 2).await;
    first.release().await.unwrap();
    let aside = heard(waiting).await;
    // Only side connections are asked that.
    way.arm("select 1", Fault::Silence);
    way.fired().await;
    assert_eq!(lost(&aside).await, Lost::Gone);
    stays_held(&free, Duration::from_secs(5)).await;
    // The server has ended it by now.
    let next = lock(&near, "waited for").await;
    assert!(next.token() > aside.token());
}

#[testbed::test]
async fn closing_ends_a_main_connection_that_falls_silent() {
    let server = postgres();
    let way = Way::to(&server.url()).await;
    // Longer than anybody waits here.
    let far = far(&way, "10m").await;
    let near = server.session("mode=session").await;
    let guard = lock(&far, "ledger").await;
    way.arm("pg_advisory_unlock", Fault::Silence);
    let closing = tokio::spawn(far.close());
    way.fired().await;
    heard(closing).await;
    let next = lock(&near, "ledger").await;
    assert!(next.token() > guard.token());
}

#[testbed::test]
async fn a_wait_without_a_connection_still_takes_a_free_lock() {
    let server = postgres();
    let way = Way::to(&server.url()).await;
    let far = far(&way, "1s").await;
    let near = server.session("mode=session").await;
    let guard = lock(&near, "ledger").await;
    // No side connection is ever made in time.
    way.arm(".enlist(", Fault::HeldBack);
    let waiting = wait_for_lock(&far, "ledger");
    way.fired().await;
    way.arm(".enlist(", Fault::HeldBack);
    guard.release().await.unwrap();
    let stalling = async {
        loop {
            way.fired().await;
            way.arm(".enlist(", Fault::HeldBack);
        }
    };
    tokio::select! {
        next = heard(waiting) => next.release().await.unwrap(),
        () = stalling => {}
    }
}

#[testbed::test]
async fn nobody_waits_for_a_standby() {
    let server = postgres_with(&[]);
    let one = server.session("mode=session&ttl=5s").await;
    let guard = lock(&one, "held").await;
    server.sql("alter system set synchronous_standby_names = 'away'");
    server.sql("select pg_reload_conf()");
    wait_for("the server wants a standby", || {
        (server.sql("show synchronous_standby_names") == "away").then_some(())
    });
    // Enough for the counter to be written.
    for _ in 0..70 {
        lock(&one, "ledger").await.release().await.unwrap();
    }
    guard.release().await.unwrap();
}

/// A connection that breaks is a loss where locks belong to connections; what it
/// had is free, at the latest after the ttl, and the session goes on.
#[testbed::test]
async fn where_locks_belong_to_connections_a_lost_request_leaves_nothing_held() {
    let server = postgres();
    let way = Way::to(&server.url()).await;
    let options = "mode=session&ttl=3s&sslmode=disable";
    let far = session(&way.url(), options).await;
    let near = server.session(options).await;
    let inspector = inspector(&format!("{}?mode=session", server.url())).await;
    for fault in FAULTS {
        let what = format!("{fault:?}");
        way.arm(".take(", fault);
        let guard = lock(&far, &what).await;
        way.fired().await;
        assert!(near.mutex(&what).try_lock().await.unwrap().is_none());
        way.arm("pg_advisory_unlock(", fault);
        // It may be lost before it is known to be given back.
        let _ = guard.release().await;
        way.fired().await;
        let guard = lock(&near, &what).await;
        way.arm(".wait_for(", fault);
        let waiting = wait_for_lock(&far, &what);
        // The server answers when it has the lock.
        way.seen().await;
        let token = guard.token();
        guard.release().await.unwrap();
        let guard = heard(waiting).await;
        way.fired().await;
        assert!(guard.token() > token);
        guard.check().unwrap();
        let _ = guard.release().await;
        queue_of(&inspector, &what, 0).await;
    }
}
