//! Memos that are kept for a time: what is left of them in the table.

use std::time::Duration;

use leasehold::Session;

use super::{heard, lock, mysql, session};
use testbed::wait_for;

async fn write(session: &Session, name: &str, keep: Option<Duration>) {
    let guard = lock(session, name).await;
    match keep {
        Some(keep) => guard.write_memo_for("ends", keep).await.unwrap(),
        None => guard.write_memo("stays").await.unwrap(),
    }
    guard.release().await.unwrap();
}

#[testbed::test]
async fn memos_that_have_ended_are_removed_by_writers_that_do_not_wait_for_each_other() {
    let (_folder, server) = mysql(&[]);
    let one = session(&server.url(), "").await;
    for number in 0..30 {
        write(
            &one,
            &format!("brief {number}"),
            Some(Duration::from_secs(1)),
        )
        .await;
    }
    wait_for("all have ended", || {
        let left = "select count(*) from leasehold_memo where expires is null or expires > utc_timestamp(6)";
        (server.sql(left) == "0").then_some(())
    });
    // Of names that ended and of new ones, all at the same time: a deadlock that is
    // not undone would be an error.
    let mut writers = Vec::new();
    for number in 0..12 {
        let session = session(&server.url(), "").await;
        writers.push(tokio::spawn(async move {
            let name = if number % 2 == 0 { "brief" } else { "lasting" };
            write(&session, &format!("{name} {number}"), None).await;
        }));
    }
    for writer in writers {
        heard(writer).await;
    }
    // Few are removed by one of eight writes.
    for _ in 0..400 {
        if server.sql("select count(expires) from leasehold_memo") == "0" {
            break;
        }
        write(&one, "lasting 1", None).await;
    }
    let left = server.sql("select count(*), count(expires) from leasehold_memo");
    assert_eq!(left.split_whitespace().collect::<Vec<_>>(), ["12", "0"]);
}
