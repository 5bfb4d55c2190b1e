//! Memos that are kept for a time: what is left of them in the table.

use std::time::Duration;

use leasehold::Session;
use testbed::wait_for;

use super::Kind;
use crate::steps::{heard, lock};

cases! {
    memos_that_have_ended_are_removed_by_writers_that_do_not_wait_for_each_other,
}

async fn write(session: &Session, name: &str, keep: Option<Duration>) {
    let guard = lock(session, name).await;
    match keep {
        Some(keep) => guard.write_memo_for("ends", keep).await.unwrap(),
        None => guard.write_memo("stays").await.unwrap(),
    }
    guard.release().await.unwrap();
}

async fn memos_that_have_ended_are_removed_by_writers_that_do_not_wait_for_each_other(kind: Kind) {
    let site = kind.shared();
    let one = site.session("").await;
    for number in 0..30 {
        let second = Duration::from_secs(1);
        write(&one, &format!("brief {number}"), Some(second)).await;
    }
    wait_for("all have ended", || {
        let now = kind.now();
        let left = format!("select count(*) from leasehold.memo where expires > {now}");
        (site.sql(&left) == "0").then_some(())
    });
    // Of names that ended and of new ones, all at the same time: a deadlock that is
    // not undone would be an error.
    let mut writers = Vec::new();
    for number in 0..12 {
        let session = site.session("").await;
        writers.push(tokio::spawn(async move {
            let name = if number % 2 == 0 { "brief" } else { "lasting" };
            write(&session, &format!("{name} {number}"), None).await;
        }));
    }
    for writer in writers {
        heard(writer).await;
    }
    // In MySQL few are removed, by one of eight writes.
    for _ in 0..kind.pick(0, 400) {
        if site.sql("select count(expires) from leasehold.memo") == "0" {
            break;
        }
        write(&one, "lasting 1", None).await;
    }
    let left = site.sql("select count(*), count(expires) from leasehold.memo");
    assert_eq!(left, "12|0");
}
