//! A server whose standby is gone. A primary that was replaced and cut off looks alike:
//! nothing commits there, and no caller may act on what it says.

use std::time::Duration;

use leasehold::Name;
use leasehold::conformance::Bench;
use testbed::wait_for;
use tokio::time::timeout;

use super::{Kind, Site};
use crate::steps::{LONG, lock};

cases! {
    what_waits_for_a_standby_in_vain_is_not_told,
}

/// Longer than it takes to answer, which is what must not happen.
const BRIEF: Duration = Duration::from_secs(2);

fn settings(kind: Kind) -> &'static [&'static str] {
    // At first those of MySQL go on without a replica, almost at once.
    match kind {
        Kind::Postgres => &[],
        Kind::MariaDb => &[
            "log-bin=log",
            "server-id=1",
            "rpl-semi-sync-master-enabled=1",
            "rpl-semi-sync-master-timeout=1",
        ],
        Kind::Mysql => &[
            "log-bin=log",
            "server-id=1",
            "plugin-load=semisync_source.so",
            "rpl-semi-sync-source-enabled=1",
            "rpl-semi-sync-source-timeout=1",
        ],
    }
}

/// From now on a commit waits for a standby, or no longer.
fn waits_for_a_standby(site: &Site, does: bool) {
    let side = match site.kind {
        Kind::Postgres => {
            let name = if does { "nobody" } else { "" };
            site.sql(&format!(
                "alter system set synchronous_standby_names = '{name}'"
            ));
            site.sql("select pg_reload_conf()");
            return;
        }
        Kind::MariaDb => "master",
        Kind::Mysql => "source",
    };
    site.sql(&format!("set global rpl_semi_sync_{side}_enabled = 0"));
    if does {
        site.sql(&format!(
            "set global rpl_semi_sync_{side}_timeout = 3600000; \
             set global rpl_semi_sync_{side}_enabled = 1"
        ));
    }
}

async fn what_waits_for_a_standby_in_vain_is_not_told(kind: Kind) {
    let site = kind.alone(settings(kind));
    let [one, other] = site.sessions("ttl=1h").await;
    let engine = Bench::new(&site.url()).await.unwrap().engine().await;
    let (prices, name) = (one.rwlock("prices"), Name::new("jobs").unwrap());
    let held = lock(&one, "jobs").await;
    held.write_memo("done").await.unwrap();
    let stamp = prices.stamp().await.unwrap();
    assert!(prices.validate(&stamp).await.unwrap());
    assert_eq!(engine.holders(&name).await.unwrap(), [held.fence().holder]);
    waits_for_a_standby(&site, true);
    let busy = tokio::spawn(async move {
        loop {
            drop(other.mutex("other").lock_within(LONG).await);
        }
    });
    wait_for("commits wait", || {
        let waiting = kind.pick(
            "select count(*) from pg_stat_activity where wait_event = 'SyncRep'",
            "select count(*) from information_schema.processlist where state like '%semi-sync%'",
        );
        (site.sql(waiting) != "0").then_some(())
    });
    let (good, holders, memo) = tokio::join!(
        timeout(BRIEF, prices.validate(&stamp)),
        timeout(BRIEF, engine.holders(&name)),
        timeout(BRIEF, one.memo("jobs")),
    );
    assert!(!matches!(good, Ok(Ok(_))), "{good:?}");
    assert!(!matches!(holders, Ok(Ok(_))), "{holders:?}");
    assert!(!matches!(memo, Ok(Ok(_))), "{memo:?}");
    busy.abort();
    waits_for_a_standby(&site, false);
    let good = async { while !matches!(prices.validate(&stamp).await, Ok(true)) {} };
    timeout(LONG, good).await.unwrap();
}
