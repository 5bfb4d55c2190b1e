//! A barrier on a server that has just taken the place of another.

use std::time::Duration;

use super::{heard, inspector, postgres, queue_of, session};

#[testbed::test]
async fn nobody_is_taken_for_gone_by_a_server_that_nobody_has_met() {
    let (_folder, server) = postgres(&[]);
    let mut members = Vec::new();
    for _ in 0..2 {
        // It renews long after this test is over.
        let one = session(&server.url(), "ttl=1h").await;
        members.push(tokio::spawn(async move {
            let entered = one.barrier("load/test", 2).enter().await.unwrap();
            (one, entered)
        }));
    }
    let (_one, first) = heard(members.remove(0)).await;
    let (_other, second) = heard(members.remove(0)).await;
    let leaving = tokio::spawn(first.leave());
    queue_of(&inspector(&server.url()).await, "load/test", 1).await;
    // As a standby that took its place and has not heard of the last renewals.
    server.sql(
        "update leasehold.meta set server = 'another'; \
         update leasehold.session set expires = clock_timestamp() - interval '1 minute'",
    );
    // Longer than it takes to look again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!leaving.is_finished());
    second.leave().await.unwrap();
    heard(leaving).await.unwrap();
}
