//! A barrier on a server that others have met and this one's members have not.

use std::time::Duration;

use leasehold::{Entered, Session};

use super::{Kind, Site};
use crate::steps::{heard, queue_of};

cases! {
    nobody_is_taken_for_gone_by_a_server_that_was_replaced,
}

/// Two members inside, which renew long after the test is over.
pub(crate) async fn two_inside(site: &Site) -> (Vec<Session>, Entered, Entered) {
    let sessions = vec![site.session("ttl=1h").await, site.session("ttl=1h").await];
    let enter = |session: &Session| {
        let barrier = session.barrier("load/test", 2);
        tokio::spawn(async move { barrier.enter().await.unwrap() })
    };
    let (first, second) = (enter(&sessions[0]), enter(&sessions[1]));
    (sessions, heard(first).await, heard(second).await)
}

async fn nobody_is_taken_for_gone_by_a_server_that_was_replaced(kind: Kind) {
    let site = kind.shared();
    let (_sessions, first, second) = two_inside(&site).await;
    let leaving = tokio::spawn(first.leave());
    queue_of(&site.inspector().await, "load/test", 1).await;
    // As one that has not heard of the last renewals: a standby that took the place of
    // another, or a server that was down meanwhile. A look in between would see only
    // half of it.
    let replaced = kind.pick("server = 'another'", "started = started - 1000");
    site.sql(&format!(
        "begin; update leasehold.meta set {replaced}; \
         update leasehold.session set expires = {}; commit",
        kind.ago(60)
    ));
    // Longer than it takes to look again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!leaving.is_finished());
    second.leave().await.unwrap();
    heard(leaving).await.unwrap();
}
