//! Memos that are kept for a time: what is left of them in the table.

use std::time::Duration;

use super::server::wait_for;
use super::{heard, lock, postgres, session};

#[tokio::test(flavor = "multi_thread")]
async fn memos_that_have_ended_are_swept_by_writers_that_do_not_wait_for_each_other() {
    let Some((_folder, server)) = postgres(&[]) else {
        return;
    };
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
