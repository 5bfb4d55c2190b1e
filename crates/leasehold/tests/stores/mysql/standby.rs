//! A server whose replica is gone, as one is that was replaced and is cut off: nothing
//! commits there, and it tells nobody anything to go by.

use std::time::Duration;

use leasehold::Name;
use leasehold::conformance::Bench;

use super::{LONG, lock, mysql, session};
use testbed::wait_for;

/// Longer than it takes to answer, which is what must not happen.
const BRIEF: Duration = Duration::from_secs(2);

#[testbed::test]
async fn what_waits_for_a_replica_in_vain_is_not_told() {
    // At first it goes on without a replica, almost at once.
    let settings = [
        "log-bin=log",
        "server-id=1",
        "rpl-semi-sync-master-enabled=1",
        "rpl-semi-sync-master-timeout=1",
    ];
    let (_folder, server) = mysql(&settings);
    let (one, other) = (
        session(&server.url(), "ttl=1h").await,
        session(&server.url(), "ttl=1h").await,
    );
    let engine = Bench::new(&server.url()).await.unwrap().engine().await;
    let (prices, name) = (one.rwlock("prices"), Name::new("jobs").unwrap());
    let held = lock(&one, "jobs").await;
    held.write_memo("done").await.unwrap();
    let stamp = prices.stamp().await.unwrap();
    assert!(prices.validate(&stamp).await.unwrap());
    assert_eq!(engine.holders(&name).await.unwrap(), [held.fence().holder]);
    server.sql(
        "set global rpl_semi_sync_master_timeout = 3600000; \
         set global rpl_semi_sync_master_enabled = 0; \
         set global rpl_semi_sync_master_enabled = 1",
    );
    let busy = tokio::spawn(async move {
        loop {
            drop(other.mutex("other").lock_within(LONG).await);
        }
    });
    wait_for("commits wait", || {
        let waiting = "select count(*) from information_schema.processlist \
                       where state like '%semi-sync%'";
        (server.sql(waiting) != "0").then_some(())
    });
    let (good, holders, memo) = tokio::join!(
        tokio::time::timeout(BRIEF, prices.validate(&stamp)),
        tokio::time::timeout(BRIEF, engine.holders(&name)),
        tokio::time::timeout(BRIEF, one.memo("jobs")),
    );
    assert!(!matches!(good, Ok(Ok(_))), "{good:?}");
    assert!(!matches!(holders, Ok(Ok(_))), "{holders:?}");
    assert!(!matches!(memo, Ok(Ok(_))), "{memo:?}");
    busy.abort();
    server.sql("set global rpl_semi_sync_master_enabled = 0");
    let good = async { while !matches!(prices.validate(&stamp).await, Ok(true)) {} };
    tokio::time::timeout(LONG, good).await.unwrap();
}
