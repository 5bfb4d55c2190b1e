//! A request or an answer that is lost, at every statement there is.

use std::time::Duration;

use leasehold::mysql::MySqlPool;
use leasehold::{ErrorKind, Session};
use sqlx_core::executor::Executor;

use super::way::{Fault, Way};
use super::{LONG, heard, inspector, lock, mysql, queue_of, wait_for_lock};
use testbed::mysql::Mysql;

const FAULTS: [Fault; 3] = [Fault::RequestLost, Fault::AnswerLost, Fault::Silence];

/// A server, a way to it, and a session of each kind of client.
async fn scene(server: &Mysql) -> (Way, Session, Session) {
    let way = Way::to(server.port).await;
    // One connection, so that what is armed is the next.
    let far = super::session(&way.url(), "ttl=20s&ssl-mode=disabled").await;
    let near = super::session(&server.url(), "ttl=20s").await;
    (way, far, near)
}

/// Part of the statement that takes a free lock, of the one that queues, and of
/// the one that looks.
const TAKE: &str = "Takes a lock";
const QUEUE: &str = "@leasehold_queue";
const LOOK: &str = "order by c.place";

#[testbed::test]
async fn a_lost_enqueue_or_withdrawal_leaves_one_claim_or_none() {
    let (_folder, server) = mysql(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    lock(&near, "old").await.release().await.unwrap();
    for fault in FAULTS {
        // A lock without its row is queued for; one with it is taken.
        for (text, name) in [(QUEUE, &*format!("{fault:?}")), (TAKE, "old")] {
            way.arm(text, fault);
            let guard = lock(&far, name).await;
            way.fired().await;
            queue_of(&inspector, name, 1).await;
            assert!(near.mutex(name).try_lock().await.unwrap().is_none());
            way.arm("set ticket = null", fault);
            guard.release().await.unwrap();
            way.fired().await;
            let token = lock(&near, name).await;
            queue_of(&inspector, name, 1).await;
            token.release().await.unwrap();
        }
        let held = lock(&near, "old").await;
        way.arm(QUEUE, fault);
        let waiting = wait_for_lock(&far, "old");
        way.fired().await;
        queue_of(&inspector, "old", 2).await;
        held.release().await.unwrap();
        let guard = heard(waiting).await;
        way.arm("delete from", fault);
        guard.release().await.unwrap();
        way.fired().await;
        queue_of(&inspector, "old", 0).await;
        lock(&near, "old").await.release().await.unwrap();
    }
}

#[testbed::test]
async fn a_lost_try_says_so_and_leaves_nothing() {
    let (_folder, server) = mysql(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    lock(&near, "ledger").await.release().await.unwrap();
    for fault in FAULTS {
        way.arm(TAKE, fault);
        // It may be tried again over another connection; never half.
        match far.mutex("ledger").try_lock().await {
            Ok(Some(guard)) => guard.release().await.unwrap(),
            Ok(None) => panic!("nobody has it"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        queue_of(&inspector, "ledger", 0).await;
        let guard = lock(&near, "ledger").await;
        way.arm(LOOK, fault);
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
async fn a_wait_goes_on_over_a_lost_look() {
    let (_folder, server) = mysql(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    for fault in FAULTS {
        let guard = lock(&near, "ledger").await;
        let waiting = wait_for_lock(&far, "ledger");
        queue_of(&inspector, "ledger", 2).await;
        way.arm(LOOK, fault);
        way.fired().await;
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
    }
}

#[testbed::test]
async fn a_lost_renewal_is_made_again() {
    let (_folder, server) = mysql(&[]);
    let way = Way::to(server.port).await;
    let far = super::session(&way.url(), "ttl=6s&ssl-mode=disabled").await;
    let guard = lock(&far, "ledger").await;
    for fault in FAULTS {
        way.arm("Keeps a lease", fault);
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
    let (_folder, server) = mysql(&[]);
    let way = Way::to(server.port).await;
    let url = format!("{}?ttl=10s&ssl-mode=disabled", way.url());
    // The tables.
    leasehold::connect(&url).await.unwrap().close().await;
    for fault in [Fault::RequestLost, Fault::AnswerLost] {
        way.arm("Starts a lease", fault);
        let opened = leasehold::connect(&url).await;
        way.fired().await;
        if let Ok(session) = opened {
            let _guard = lock(&session, "ledger").await;
            way.arm("'1000-01-01'", fault);
            session.close().await;
            way.fired().await;
        }
        let claims = server.sql("select count(*) from leasehold_claim where ticket is not null");
        assert_eq!(claims, "0", "{fault:?}");
    }
}

#[testbed::test]
async fn a_request_that_comes_after_it_was_given_up_comes_too_late() {
    let (_folder, server) = mysql(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    lock(&near, "ledger").await.release().await.unwrap();
    // The first is held back when the lock is free, the second when it is queued for.
    for (epoch, text) in [(1, TAKE), (2, QUEUE)] {
        let held = match text {
            QUEUE => Some(lock(&near, "ledger").await),
            _ => None,
        };
        way.arm(text, Fault::HeldBack);
        let mutex = far.mutex("ledger");
        let asking = tokio::spawn(async move { mutex.lock().await });
        way.fired().await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        // Withdrawn by another way: the epoch says so.
        testbed::wait_for("the withdrawal", || {
            let epochs = "select max(epoch) from leasehold_session";
            (server.sql(epochs) == epoch.to_string()).then_some(())
        });
        drop(held);
        // Nothing else keeps it from a lock that is free again.
        lock(&near, "ledger").await.release().await.unwrap();
        lock(&near, "ledger").await.release().await.unwrap();
        queue_of(&inspector, "ledger", 0).await;
        let free = "select count(*) from leasehold_claim where ticket is null and queued = 0";
        assert_eq!(server.sql(free), "1");
        way.release();
        way.fired().await;
        queue_of(&inspector, "ledger", 0).await;
        // The session goes on under its new epoch.
        lock(&far, "ledger").await.release().await.unwrap();
    }
}

#[testbed::test]
async fn whoever_stops_inside_a_take_over_does_not_stop_the_others() {
    let (_folder, server) = mysql(&[]);
    let (way, far, _) = scene(&server).await;
    let near = super::session(&server.url(), "ttl=2s").await;
    let kept = lock(&near, "kept").await;
    let dead = super::session(&server.url(), "ttl=20s").await;
    let guard = lock(&dead, "ledger").await;
    let end = "update leasehold_session set expires = utc_timestamp(6) - interval 1 second \
               where id in (select session from leasehold_claim \
               where ticket is not null and name = 'ledger')";
    server.sql(end);
    way.arm("order by s.id for update skip locked", Fault::HeldBack);
    let mutex = far.mutex("ledger");
    let stopped = tokio::spawn(async move { mutex.try_lock().await });
    way.fired().await;
    // It has the lock's row, and nothing comes from it any more.
    let next = lock(&near, "ledger").await;
    assert!(next.token() > guard.token());
    // Nor does it cost those who wait for it what else they have.
    kept.check().unwrap();
    stopped.abort();
}

#[testbed::test]
async fn a_loss_is_told_also_if_nobody_can_say_why() {
    let (_folder, server) = mysql(&[]);
    let one = super::session(&server.url(), "ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    let kept = lock(&one, "kept").await;
    server.sql("drop table leasehold_eviction; delete from leasehold_claim where name = 'ledger'");
    assert_eq!(super::lost(&guard).await, leasehold::Lost::Gone);
    kept.check().unwrap();
}

#[testbed::test]
async fn whoever_comes_to_wait_during_a_look_keeps_its_place() {
    let (_folder, server) = mysql(&[]);
    let (way, far, near) = scene(&server).await;
    let inspector = inspector(&server.url()).await;
    let writer = near.rwlock("ledger").write().await.unwrap();
    let reader = || {
        let lock = far.rwlock("ledger");
        tokio::spawn(async move { lock.read_within(LONG).await.unwrap() })
    };
    let first = reader();
    queue_of(&inspector, "ledger", 2).await;
    way.arm(LOOK, Fault::AnswerHeldBack);
    way.fired().await;
    // The look is over and does not know of this one, which waits when it looks itself.
    let second = reader();
    queue_of(&inspector, "ledger", 3).await;
    let place = server.sql("select max(place) from leasehold_claim");
    way.arm(LOOK, Fault::AnswerHeldBack);
    way.fired().await;
    way.release();
    way.release();
    // Both answers are heard when there is another look.
    way.arm(LOOK, Fault::RequestLost);
    way.fired().await;
    writer.release().await.unwrap();
    let _first = heard(first).await;
    assert_eq!(heard(second).await.token().get().to_string(), place);
}

#[testbed::test]
async fn whoever_stops_after_a_refusal_does_not_stop_the_others() {
    let (_folder, server) = mysql(&[]);
    let (way, far, near) = scene(&server).await;
    let guard = lock(&near, "ledger").await;
    // Nobody can queue, because somebody has locked what is not there.
    let others = MySqlPool::connect(&server.url()).await.unwrap();
    let mut blocker = others.begin().await.unwrap();
    (&mut *blocker)
        .execute("select * from leasehold_claim where name = 'ledger' and seat > 0 for update")
        .await
        .unwrap();
    way.arm("rollback", Fault::HeldBack);
    let stopped = wait_for_lock(&far, "ledger");
    way.fired().await;
    // It was refused and has not given back the lock's row, and nothing comes from it.
    blocker.rollback().await.unwrap();
    stopped.abort();
    let next = super::session(&server.url(), "ttl=20s").await;
    let waiting = wait_for_lock(&next, "ledger");
    guard.release().await.unwrap();
    heard(waiting).await.release().await.unwrap();
}

#[testbed::test]
async fn a_server_that_takes_writes_again_in_between_grants_nothing_without_a_row() {
    let (_folder, server) = mysql(&[]);
    let way = Way::to(server.port).await;
    let far = super::session(&way.url(), "ttl=1h&ssl-mode=disabled").await;
    // One has its row, one has not.
    lock(&far, "old").await.release().await.unwrap();
    server.sql("set global read_only = 1");
    way.arm("on duplicate key update", Fault::AnswerHeldBack);
    let all = far.lock_all(["old", "new"]);
    let waiting = tokio::spawn(async move { all.lock_within(LONG).await.unwrap() });
    way.fired().await;
    server.sql("set global read_only = 0");
    way.release();
    let guards = heard(waiting).await;
    for guard in &*guards {
        let place = format!(
            "select place from leasehold_claim where ticket is not null and name = '{}'",
            guard.name()
        );
        assert_eq!(server.sql(&place), guard.token().get().to_string());
    }
}
