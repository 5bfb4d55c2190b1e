//! Memos that are kept for a time, and marks of stamps: what is left of them in the
//! tables.

use std::time::Duration;

use super::{heard, lock, postgres, session};
use testbed::wait_for;

#[testbed::test]
async fn memos_that_have_ended_are_swept_by_writers_that_do_not_wait_for_each_other() {
    let (_folder, server) = postgres(&[]);
    let one = session(&server.url(), "").await;
    for number in 0..30 {
        let guard = lock(&one, &format!("brief {number}")).await;
        let second = Duration::from_secs(1);
        guard.write_memo_for("x", second).await.unwrap();
        guard.release().await.unwrap();
    }
    wait_for("all have ended", || {
        let left = server.sql("select count(*) from leasehold.memo where expires > now()");
        (left == "0").then_some(())
    });
    // Of names that ended and of new ones, all at the same time: a deadlock would be
    // an error.
    let mut writers = Vec::new();
    for number in 0..12 {
        let session = session(&server.url(), "").await;
        writers.push(tokio::spawn(async move {
            let name = if number % 2 == 0 { "brief" } else { "lasting" };
            let guard = lock(&session, &format!("{name} {number}")).await;
            guard.write_memo("stays").await.unwrap();
            guard.release().await.unwrap();
        }));
    }
    for writer in writers {
        heard(writer).await;
    }
    let left = server.sql("select count(*), count(expires) from leasehold.memo");
    assert_eq!(left, "12|0");
}

#[testbed::test]
async fn old_marks_of_locks_that_nobody_uses_are_swept() {
    let (_folder, server) = postgres(&[]);
    let one = session(&server.url(), "ttl=1h").await;
    let [idle, used, recent, other] =
        ["idle", "in use", "recent", "other"].map(|name| one.rwlock(name));
    let (was_idle, was_used) = (idle.stamp().await.unwrap(), used.stamp().await.unwrap());
    let _reader = used.read().await.unwrap();
    server.sql("update leasehold.stamp set made = made - interval '2 days'");
    let was_recent = recent.stamp().await.unwrap();
    other.stamp().await.unwrap();
    let left = server.sql("select string_agg(name, ',' order by name) from leasehold.stamp");
    assert_eq!(left, "in use,other,recent");
    assert!(used.validate(&was_used).await.unwrap());
    assert!(recent.validate(&was_recent).await.unwrap());
    assert!(!idle.validate(&was_idle).await.unwrap());
}
