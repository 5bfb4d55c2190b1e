//! A barrier whose member talks to a server that was replaced.

use std::time::Duration;

use leasehold::{Entered, Session};

use super::{heard, inspector, mysql, queue_of, session};
use testbed::mysql::Mysql;

/// Two members inside, who renew long after the test is over.
async fn two_inside(server: &Mysql) -> (Vec<Session>, Entered, Entered) {
    let url = server.url();
    let sessions = vec![session(&url, "ttl=1h").await, session(&url, "ttl=1h").await];
    let members: Vec<_> = sessions
        .iter()
        .map(|one| one.barrier("load/test", 2))
        .collect();
    let both = async { tokio::try_join!(members[0].enter(), members[1].enter()) };
    let (first, second) = tokio::time::timeout(super::LONG, both)
        .await
        .unwrap()
        .unwrap();
    (sessions, first, second)
}

#[testbed::test]
async fn nobody_leaves_by_the_word_of_a_server_that_takes_no_writes() {
    let (_folder, server) = mysql(&[]);
    let (_sessions, first, second) = two_inside(&server).await;
    let mut leaving = tokio::spawn(first.leave());
    queue_of(&inspector(&server.url()).await, "load/test", 1).await;
    // As a server that was replaced: it takes no writes, and has heard of no renewal
    // since, so all are dead there.
    server.sql(
        "create table kept as select id, expires from leasehold_session; \
         set global read_only = 1; \
         update leasehold_session set expires = utc_timestamp(6) - interval 1 minute",
    );
    let left = tokio::time::timeout(Duration::from_secs(3), &mut leaving).await;
    assert!(left.is_err(), "{left:?}");
    server.sql(
        "update leasehold_session s join kept k on k.id = s.id set s.expires = k.expires; \
         set global read_only = 0",
    );
    assert!(!leaving.is_finished());
    second.leave().await.unwrap();
    heard(leaving).await.unwrap();
}

#[testbed::test]
async fn nobody_is_taken_for_gone_by_a_server_that_was_down() {
    let (_folder, server) = mysql(&[]);
    let (_sessions, first, second) = two_inside(&server).await;
    let leaving = tokio::spawn(first.leave());
    queue_of(&inspector(&server.url()).await, "load/test", 1).await;
    // As if it had been started after the last renewals.
    server.sql(
        "update leasehold_meta set started = started - 1000; \
         update leasehold_session set expires = utc_timestamp(6) - interval 1 minute",
    );
    // Longer than it takes to look again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!leaving.is_finished());
    second.leave().await.unwrap();
    heard(leaving).await.unwrap();
}
