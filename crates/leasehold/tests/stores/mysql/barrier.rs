//! A barrier whose member talks to a server that was replaced.

use std::time::Duration;

use crate::sql::Kind;
use crate::sql::barrier::two_inside;
use crate::steps::{heard, queue_of};

#[testbed::test]
async fn nobody_leaves_by_the_word_of_a_server_that_takes_no_writes() {
    let server = Kind::MariaDb.alone(&[]);
    let (_sessions, first, second) = two_inside(&server).await;
    let mut leaving = tokio::spawn(first.leave());
    queue_of(&server.inspector().await, "load/test", 1).await;
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
