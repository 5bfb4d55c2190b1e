//! Marks of locks that have had no writer: what is left of them in the file.

use super::*;

#[tokio::test]
async fn old_marks_of_locks_that_nobody_uses_are_swept() {
    let bench = Bench::new();
    let party = bench.party().await;
    let mark = async |name: &str| {
        let name = Name::new(name).unwrap();
        party.engine.stamp(&party.lease, &name).await.unwrap()
    };
    mark("idle").await;
    mark("in use").await;
    let recent = mark("recent").await;
    let reader = party.ticket_for("in use", 1, u32::MAX);
    party.lock(&reader).await.unwrap();
    let file = rusqlite::Connection::open(bench.path()).unwrap();
    // Of the first hour after 1970.
    let made_long_ago = "update stamp set mark = 7 where name in ('idle', 'in use')";
    assert_eq!(file.execute(made_long_ago, []).unwrap(), 2);
    let is_there = || {
        let query = "select exists (select 1 from stamp where name = 'idle')";
        file.query_row(query, [], |row| row.get::<_, bool>(0))
            .unwrap()
    };
    // One of sixteen that are made looks for them.
    for number in 0..1000 {
        if !is_there() {
            break;
        }
        mark(&format!("new {number}")).await;
    }
    assert!(!is_there());
    let stored = |name: &str| {
        let query = "select mark from stamp where name = ?1";
        file.query_row(query, [name], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(stored("in use"), 7);
    assert_eq!(mark("recent").await, recent);
    mark("idle").await.unwrap();
    assert_ne!(stored("idle"), 7);
}
