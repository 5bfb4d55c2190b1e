//! A request or an answer that is lost, at every statement there is.

use std::time::Duration;

use leasehold::{ErrorKind, Session};

use super::way::{Fault, Way};
use super::{LONG, heard, inspector, lock, postgres, queue_of, wait_for_lock};
use testbed::postgres::Postgres;

const FAULTS: [Fault; 3] = [Fault::RequestLost, Fault::AnswerLost, Fault::Silence];

/// A server, a way to it, and a session of each kind of client.
async fn scene(server: &Postgres) -> (Way, Session, Session) {
    let way = Way::to(server.port).await;
    // One connection, so that what is armed is the next.
    let far = super::session(&way.url(), "ttl=20s&sslmode=disable").await;
    let near = super::session(&server.url(), "ttl=20s").await;
    (way, far, near)
}

#[testbed::test]
async fn a_lost_enqueue_or_withdrawal_leaves_one_claim_or_none() {
    let (_folder, server) = postgres(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    for fault in FAULTS {
        way.arm(".enqueue(", fault);
        let guard = lock(&far, "ledger").await;
        way.fired().await;
        queue_of(&inspector, "ledger", 1).await;
        assert!(near.mutex("ledger").try_lock().await.unwrap().is_none());
        way.arm(".withdraw(", fault);
        guard.release().await.unwrap();
        way.fired().await;
        let token = lock(&near, "ledger").await;
        queue_of(&inspector, "ledger", 1).await;
        token.release().await.unwrap();
    }
}

#[testbed::test]
async fn a_lost_try_says_so_and_leaves_nothing() {
    let (_folder, server) = postgres(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    for fault in FAULTS {
        way.arm(".enqueue(", fault);
        // It may be tried again over another connection; never half.
        match far.mutex("ledger").try_lock().await {
            Ok(Some(guard)) => guard.release().await.unwrap(),
            Ok(None) => panic!("nobody has it"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        queue_of(&inspector, "ledger", 0).await;
        let guard = lock(&near, "ledger").await;
        way.arm(".enqueue(", fault);
        match far.mutex("ledger").try_lock().await {
            Ok(Some(_)) => panic!("another has it"),
            Ok(None) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        guard.release().await.unwrap();
        queue_of(&inspector, "ledger", 0).await;
    }
}

#[testbed::test]
async fn a_wait_goes_on_over_a_lost_look_and_a_lost_message() {
    let (_folder, server) = postgres(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    for fault in FAULTS {
        let guard = lock(&near, "ledger").await;
        let waiting = wait_for_lock(&far, "ledger");
        queue_of(&inspector, "ledger", 2).await;
        way.arm(".look(", fault);
        way.fired().await;
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
    }
}

#[testbed::test]
async fn a_lost_renewal_is_made_again() {
    let (_folder, server) = postgres(&[]);
    let way = Way::to(server.port).await;
    let far = super::session(&way.url(), "ttl=6s&sslmode=disable").await;
    let guard = lock(&far, "ledger").await;
    for fault in FAULTS {
        way.arm(".renew(", fault);
        way.fired().await;
    }
    // What comes after the last loss shows that it got through.
    let renewed = guard.valid_for();
    let later = async {
        while guard.valid_for() <= renewed {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, later).await.unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn a_lost_opening_or_closing_leaves_no_session_for_long() {
    let (_folder, server) = postgres(&[]);
    let way = Way::to(server.port).await;
    let url = format!("{}?ttl=10s&sslmode=disable", way.url());
    // The tables.
    leasehold::connect(&url).await.unwrap().close().await;
    for fault in [Fault::RequestLost, Fault::AnswerLost] {
        way.arm(".open(", fault);
        let opened = leasehold::connect(&url).await;
        way.fired().await;
        let session = match opened {
            Ok(session) => session,
            Err(_) => leasehold::connect(&url).await.unwrap(),
        };
        let _guard = lock(&session, "ledger").await;
        way.arm(".close(", fault);
        session.close().await;
        way.fired().await;
        let claims = server.sql("select count(*) from leasehold.claim");
        assert_eq!(claims, "0", "{fault:?}");
        // Whoever comes next removes those that have ended.
        testbed::wait_for("no session", || {
            let sessions =
                "select count(*) from leasehold.session where expires > clock_timestamp()";
            (server.sql(sessions) == "0").then_some(())
        });
    }
}

#[testbed::test]
async fn a_request_that_comes_after_it_was_given_up_comes_too_late() {
    let (_folder, server) = postgres(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    way.arm(".enqueue(", Fault::HeldBack);
    let mutex = far.mutex("ledger");
    let asking = tokio::spawn(async move { mutex.lock().await });
    way.fired().await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    // Withdrawn by another way: the epoch says so.
    testbed::wait_for("the withdrawal", || {
        let epochs = "select count(*) from leasehold.session where epoch > 0";
        (server.sql(epochs) == "1").then_some(())
    });
    way.release();
    // The server has done what it wants with it when the next one is done.
    let guard = lock(&near, "ledger").await;
    queue_of(&inspector, "ledger", 1).await;
    guard.release().await.unwrap();
    // The session goes on under its new epoch.
    lock(&far, "ledger").await.release().await.unwrap();
    queue_of(&inspector, "ledger", 0).await;
}

/// A connection that breaks is a loss where locks belong to connections; what it
/// had is free, at the latest after the ttl, and the session goes on.
#[testbed::test]
async fn where_locks_belong_to_connections_a_lost_request_leaves_nothing_held() {
    let (_folder, server) = postgres(&[]);
    let way = Way::to(server.port).await;
    let options = "mode=session&ttl=3s&sslmode=disable";
    let far = super::session(&way.url(), options).await;
    let near = super::session(&server.url(), options).await;
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
        way.fired().await;
        let token = guard.token();
        guard.release().await.unwrap();
        let guard = heard(waiting).await;
        assert!(guard.token() > token);
        guard.check().unwrap();
        let _ = guard.release().await;
        queue_of(&inspector, &what, 0).await;
    }
}
