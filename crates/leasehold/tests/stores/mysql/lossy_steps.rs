//! A request or an answer that is lost where several belong together, or the effect
//! is seen by others only.

use leasehold::mysql::{MySqlPool, fence};

use super::{LONG, inspector, lock, mysql, queue_of};
use crate::sql::way::FAULTS;

#[testbed::test]
async fn a_take_over_that_lost_something_is_made_again() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h").await;
    let dead = server.session("ttl=2h").await;
    // The steps of it, in order.
    let steps = [
        "show global status like 'Uptime'",
        "select seat into @leasehold_seat",
        "order by s.id for update skip locked",
        "order by seat for update skip locked",
        "'1000-01-01' where id in",
    ];
    for fault in FAULTS {
        for step in steps {
            // By name: each dead one has a lock of its own.
            let name = format!("{fault:?} {step}");
            let left = lock(&dead, &name).await;
            server.sql(
                "update leasehold_session set ttl = 1, \
                 expires = utc_timestamp(6) - interval 1 second where ttl >= 7200000000",
            );
            way.arm(step, fault);
            let guard = lock(&far, &name).await;
            way.fired().await;
            assert!(guard.token() > left.token(), "{name}");
            guard.release().await.unwrap();
            // The dead one lives again.
            server.sql(
                "update leasehold_session set ttl = 7200000000, \
                 expires = utc_timestamp(6) + interval 2 hour where ttl = 1",
            );
        }
    }
}

#[testbed::test]
async fn a_term_whose_beginning_was_lost_is_begun_once() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h").await;
    let mut last = lock(&far, "ledger").await;
    for (fault, term) in FAULTS.into_iter().zip(["1", "2", "3"]) {
        let token = last.token();
        last.release().await.unwrap();
        server.sql("update leasehold_meta set server = 'another'");
        way.arm("@leasehold_begins", fault);
        last = lock(&far, "ledger").await;
        way.fired().await;
        assert!(last.token().get() > token.get() + (1 << 32), "{fault:?}");
        let begun = server.sql("select term from leasehold_meta");
        assert_eq!(begun, term, "{fault:?}");
    }
}

#[testbed::test]
async fn several_locks_of_which_something_was_lost_are_all_had_once() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h").await;
    let inspector = server.inspector().await;
    let steps = [
        "and ticket is not null limit 1",
        "on duplicate key update",
        "select min(c.term)",
        "place = last_insert_id(drawn)",
    ];
    for fault in FAULTS {
        for step in steps {
            way.arm(step, fault);
            let guards = far.lock_all(["a", "b"]).lock_within(LONG).await.unwrap();
            way.fired().await;
            for guard in &*guards {
                queue_of(&inspector, guard.name(), 1).await;
                let place = format!(
                    "select place from leasehold_claim where ticket is not null and name = '{}'",
                    guard.name()
                );
                let place = server.sql(&place);
                assert_eq!(place, guard.token().get().to_string(), "{fault:?} {step}");
            }
            // Not dropped: then the next would find this session's turn taken, and take
            // them one by one.
            guards.release().await.unwrap();
            queue_of(&inspector, "a", 0).await;
            queue_of(&inspector, "b", 0).await;
        }
    }
}

#[testbed::test]
async fn an_eviction_whose_answer_was_lost_breaks_nobody_twice() {
    let server = mysql();
    let (way, _far) = server.far("ttl=1h").await;
    let near = server.session("ttl=3s").await;
    let url = format!("{}?ssl-mode=disabled", way.url());
    let inspector = inspector(&url).await;
    for fault in FAULTS {
        let guard = lock(&near, "ledger").await;
        let other = server.session("ttl=1h").await;
        let waiting = super::wait_for_lock(&other, "ledger");
        queue_of(&inspector, "ledger", 2).await;
        way.arm("Breaks a claim", fault);
        // It is done, or the caller hears that it is not known, and asks again.
        if inspector.evict("ledger", "ann", "").await.is_err() {
            let name = leasehold::Name::new("ledger").unwrap();
            let queue = inspector.queue("ledger").await.unwrap();
            if queue.claims.len() == 2 {
                let holder = queue.claims[0].id;
                inspector
                    .evict_claim(&name, holder, "ann", "")
                    .await
                    .unwrap();
            }
        }
        way.fired().await;
        assert_eq!(super::lost(&guard).await, leasehold::Lost::Evicted);
        super::heard(waiting).await.release().await.unwrap();
    }
    let broken = server.sql("select count(*) from leasehold_eviction");
    assert_eq!(broken, "3");
}

#[testbed::test]
async fn a_fence_that_lost_something_fences_or_says_so() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h").await;
    let pool = MySqlPool::connect(&server.url()).await.unwrap();
    let inspector = server.inspector().await;
    for fault in FAULTS {
        let guard = lock(&far, "ledger").await;
        way.arm("Gives a claim a row", fault);
        let mut tx = pool.begin().await.unwrap();
        if fence(&guard, &mut tx).await.is_err() {
            // Again is as good as once.
            fence(&guard, &mut tx).await.unwrap();
        }
        way.fired().await;
        queue_of(&inspector, "ledger", 1).await;
        let rows = "select count(*) from leasehold_claim where ticket is not null and seat > 0";
        assert_eq!(server.sql(rows), "1", "{fault:?}");
        tx.commit().await.unwrap();
        guard.release().await.unwrap();
        queue_of(&inspector, "ledger", 0).await;
    }
}
