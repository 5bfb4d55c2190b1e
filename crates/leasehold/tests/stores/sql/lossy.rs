//! A request or an answer that is lost, at every statement there is.

use std::time::Duration;

use leasehold::{ErrorKind, Session};
use testbed::wait_for;

use super::way::{FAULTS, Fault, Way};
use super::{Kind, Site};
use crate::steps::{LONG, heard, lock, queue_of, wait_for_lock};

cases! {
    a_lost_enqueue_or_withdrawal_leaves_one_claim_or_none,
    a_lost_try_says_so_and_leaves_nothing,
    a_wait_goes_on_over_a_lost_look,
    a_lost_renewal_is_made_again,
    a_lost_opening_or_closing_leaves_no_session_for_long,
    a_request_that_comes_after_it_was_given_up_comes_too_late,
}

/// A part of each statement.
struct Statements {
    open: &'static str,
    renew: &'static str,
    close: &'static str,
    /// Takes a lock that is free and was used before.
    take: &'static str,
    /// Takes one that was not, and gets in line for one that is held.
    queue: &'static str,
    /// Tries one that is held.
    try_held: &'static str,
    look: &'static str,
    /// Gives back what was taken.
    give_back: &'static str,
    /// Gives back what was waited for.
    leave: &'static str,
}

fn statements(kind: Kind) -> Statements {
    let postgres = Statements {
        open: ".open(",
        renew: ".renew(",
        close: ".close(",
        take: ".enqueue(",
        queue: ".enqueue(",
        try_held: ".enqueue(",
        look: ".look(",
        give_back: ".withdraw(",
        leave: ".withdraw(",
    };
    let mysql = Statements {
        open: "Starts a lease",
        renew: "Keeps a lease",
        close: "'1000-01-01'",
        take: "Takes a lock",
        queue: "@leasehold_queue",
        try_held: "order by c.place",
        look: "order by c.place",
        give_back: "set ticket = null",
        leave: "delete from",
    };
    kind.pick(postgres, mysql)
}

/// A way to a database, a session by it, and one that nothing happens to.
async fn scene(site: &Site) -> (Way, Session, Session) {
    let (way, far) = site.far("ttl=20s").await;
    let near = site.session("ttl=20s").await;
    lock(&near, "old").await.release().await.unwrap();
    (way, far, near)
}

async fn a_lost_enqueue_or_withdrawal_leaves_one_claim_or_none(kind: Kind) {
    let (site, of) = (kind.shared(), statements(kind));
    let (way, far, near) = scene(&site).await;
    let inspector = site.inspector().await;
    for fault in FAULTS {
        for (statement, name) in [(of.queue, &*format!("{fault:?}")), (of.take, "old")] {
            way.arm(statement, fault);
            let guard = lock(&far, name).await;
            way.fired().await;
            queue_of(&inspector, name, 1).await;
            assert!(near.mutex(name).try_lock().await.unwrap().is_none());
            way.arm(of.give_back, fault);
            guard.release().await.unwrap();
            way.fired().await;
            let guard = lock(&near, name).await;
            queue_of(&inspector, name, 1).await;
            guard.release().await.unwrap();
        }
        let held = lock(&near, "old").await;
        way.arm(of.queue, fault);
        let waiting = wait_for_lock(&far, "old");
        way.fired().await;
        queue_of(&inspector, "old", 2).await;
        held.release().await.unwrap();
        let guard = heard(waiting).await;
        way.arm(of.leave, fault);
        guard.release().await.unwrap();
        way.fired().await;
        queue_of(&inspector, "old", 0).await;
        lock(&near, "old").await.release().await.unwrap();
    }
}

async fn a_lost_try_says_so_and_leaves_nothing(kind: Kind) {
    let (site, of) = (kind.shared(), statements(kind));
    let (way, far, near) = scene(&site).await;
    let inspector = site.inspector().await;
    for fault in FAULTS {
        way.arm(of.take, fault);
        // It may be tried again over another connection; never half.
        match far.mutex("old").try_lock().await {
            Ok(Some(guard)) => guard.release().await.unwrap(),
            Ok(None) => panic!("nobody has it"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        way.fired().await;
        queue_of(&inspector, "old", 0).await;
        let guard = lock(&near, "old").await;
        way.arm(of.try_held, fault);
        match far.mutex("old").try_lock().await {
            Ok(Some(_)) => panic!("another has it"),
            Ok(None) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        way.fired().await;
        guard.release().await.unwrap();
        queue_of(&inspector, "old", 0).await;
    }
}

async fn a_wait_goes_on_over_a_lost_look(kind: Kind) {
    let (site, of) = (kind.shared(), statements(kind));
    let (way, far, near) = scene(&site).await;
    let inspector = site.inspector().await;
    for fault in FAULTS {
        let guard = lock(&near, "old").await;
        let waiting = wait_for_lock(&far, "old");
        queue_of(&inspector, "old", 2).await;
        way.arm(of.look, fault);
        way.fired().await;
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
    }
}

async fn a_lost_renewal_is_made_again(kind: Kind) {
    let (site, of) = (kind.shared(), statements(kind));
    let (way, far) = site.far("ttl=20s").await;
    let guard = lock(&far, "ledger").await;
    for fault in FAULTS {
        way.arm(of.renew, fault);
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

async fn a_lost_opening_or_closing_leaves_no_session_for_long(kind: Kind) {
    let (site, of) = (kind.shared(), statements(kind));
    // With the tables.
    let (way, first) = site.far("ttl=10s").await;
    first.close().await;
    let url = format!("{}?ttl=10s&{}", way.url(), kind.in_clear());
    for fault in [Fault::RequestLost, Fault::AnswerLost] {
        way.arm(of.open, fault);
        let opened = leasehold::connect(&url).await;
        way.fired().await;
        let session = match opened {
            Ok(session) => session,
            Err(_) => leasehold::connect(&url).await.unwrap(),
        };
        let _guard = lock(&session, "ledger").await;
        way.arm(of.close, fault);
        session.close().await;
        way.fired().await;
        let claims = "select count(*) from leasehold.claim where ticket is not null";
        assert_eq!(site.sql(claims), "0", "{fault:?}");
        // The next session removes those that have ended.
        wait_for("no session", || {
            let now = kind.now();
            let left = format!("select count(*) from leasehold.session where expires > {now}");
            (site.sql(&left) == "0").then_some(())
        });
    }
}

async fn a_request_that_comes_after_it_was_given_up_comes_too_late(kind: Kind) {
    let (site, of) = (kind.shared(), statements(kind));
    let (way, far, near) = scene(&site).await;
    let inspector = site.inspector().await;
    // The first is held back when the lock is free, the second when it is queued for.
    for (epoch, statement) in [("1", of.take), ("2", of.queue)] {
        let held = match epoch {
            "1" => None,
            _ => Some(lock(&near, "old").await),
        };
        way.arm(statement, Fault::HeldBack);
        let mutex = far.mutex("old");
        let asking = tokio::spawn(async move { mutex.lock().await });
        way.fired().await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        // Withdrawn by another way: the epoch says so.
        wait_for("the withdrawal", || {
            let last = site.sql("select max(epoch) from leasehold.session");
            (last == epoch).then_some(())
        });
        drop(held);
        // Nothing else keeps it from a lock that is free again.
        for _ in 0..2 {
            lock(&near, "old").await.release().await.unwrap();
        }
        queue_of(&inspector, "old", 0).await;
        let in_line = kind.pick("true", "ticket is not null or queued <> 0");
        let left = format!("select count(*) from leasehold.claim where {in_line}");
        assert_eq!(site.sql(&left), "0");
        way.release();
        // The server has done what it wants with it.
        way.fired().await;
        lock(&near, "old").await.release().await.unwrap();
        queue_of(&inspector, "old", 0).await;
        // The session goes on under its new epoch.
        lock(&far, "old").await.release().await.unwrap();
        queue_of(&inspector, "old", 0).await;
    }
}
