//! A server whose standby is gone, as one is that was replaced and is cut off: nothing
//! commits there, and it tells nobody anything to go by.

use std::time::Duration;

use leasehold::Name;
use leasehold::conformance::Bench;

use super::{LONG, lock, postgres, session};
use testbed::wait_for;

/// Longer than it takes to answer, which is what must not happen.
const BRIEF: Duration = Duration::from_secs(2);

#[testbed::test]
async fn what_waits_for_a_standby_in_vain_is_not_told() {
    let (_folder, server) = postgres(&[]);
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
    server.sql("alter system set synchronous_standby_names = 'nobody'");
    server.sql("select pg_reload_conf()");
    let busy = tokio::spawn(async move {
        loop {
            drop(other.mutex("other").lock_within(LONG).await);
        }
    });
    wait_for("commits wait", || {
        let waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";
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
    server.sql("alter system reset synchronous_standby_names");
    server.sql("select pg_reload_conf()");
    let good = async { while !matches!(prices.validate(&stamp).await, Ok(true)) {} };
    tokio::time::timeout(LONG, good).await.unwrap();
}
