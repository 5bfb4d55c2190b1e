//! A request or an answer that is lost, at every statement there is.

use leasehold::mysql::MySqlPool;
use sqlx_core::executor::Executor;

use super::{LONG, heard, lock, mysql, mysql_with, queue_of, wait_for_lock};
use crate::sql::way::Fault;

/// Part of the statement that looks.
const LOOK: &str = "order by c.place";

#[testbed::test]
async fn whoever_stops_inside_a_take_over_does_not_stop_the_others() {
    let server = mysql();
    let (way, far) = server.far("ttl=20s").await;
    let near = server.session("ttl=2s").await;
    let kept = lock(&near, "kept").await;
    let dead = server.session("ttl=20s").await;
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
    let server = mysql();
    let one = server.session("ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    let kept = lock(&one, "kept").await;
    server.sql("drop table leasehold_eviction; delete from leasehold_claim where name = 'ledger'");
    assert_eq!(super::lost(&guard).await, leasehold::Lost::Gone);
    kept.check().unwrap();
}

#[testbed::test]
async fn whoever_comes_to_wait_during_a_look_keeps_its_place() {
    let server = mysql();
    let (way, far) = server.far("ttl=20s").await;
    let near = server.session("ttl=20s").await;
    let inspector = server.inspector().await;
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
    let server = mysql();
    let (way, far) = server.far("ttl=20s").await;
    let near = server.session("ttl=20s").await;
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
    let next = server.session("ttl=20s").await;
    let waiting = wait_for_lock(&next, "ledger");
    guard.release().await.unwrap();
    heard(waiting).await.release().await.unwrap();
}

#[testbed::test]
async fn a_server_that_takes_writes_again_in_between_grants_nothing_without_a_row() {
    let server = mysql_with(&[]);
    let (way, far) = server.far("ttl=1h").await;
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
