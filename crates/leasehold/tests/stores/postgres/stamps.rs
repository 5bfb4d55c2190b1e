//! Marks of stamps: what is left of them in the tables.

use super::postgres;

#[testbed::test]
async fn old_marks_of_locks_that_nobody_uses_are_swept() {
    let server = postgres();
    let one = server.session("ttl=1h").await;
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
