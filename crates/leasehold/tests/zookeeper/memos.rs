//! Memos that are kept for a time: what is left of them.

use std::time::Duration;

use leasehold::Session;

use super::{Client, LONG, ensemble, lock, session};

async fn write(session: &Session, name: &str, keep: Option<Duration>) {
    let guard = lock(session, name).await;
    match keep {
        Some(keep) => guard.write_memo_for("ends", keep).await.unwrap(),
        None => guard.write_memo("stays").await.unwrap(),
    }
    guard.release().await.unwrap();
}

/// The memos that there are nodes of, and those that there are notes on.
fn left(client: &mut Client) -> (Vec<String>, Vec<String>) {
    let mut below = |path: &str| client.children(path).unwrap_or_default();
    let mut memos = below("/.leasehold/memo");
    let mut notes = Vec::new();
    for hour in below("/.leasehold/ends") {
        for second in below(&format!("/.leasehold/ends/{hour}")) {
            notes.extend(below(&format!("/.leasehold/ends/{hour}/{second}")));
        }
    }
    let about = |note: String| note.splitn(3, '-').nth(2).unwrap().to_owned();
    let mut notes: Vec<_> = notes.into_iter().map(about).collect();
    memos.sort();
    notes.sort();
    notes.dedup();
    (memos, notes)
}

#[tokio::test(flavor = "multi_thread")]
async fn memos_that_have_ended_are_removed_by_those_who_write_others() {
    let Some((_folder, zookeeper)) = ensemble(1) else {
        return;
    };
    let (one, second) = (
        session(&zookeeper.url(), "ttl=30s").await,
        Duration::from_secs(1),
    );
    for number in 0..20 {
        write(&one, &format!("brief-{number}"), Some(second)).await;
    }
    // It has a note that is not true any more.
    write(&one, "brief-7", None).await;
    write(&one, "long", Some(second * 3600)).await;
    let mut client = zookeeper.client();
    let sweeping = async {
        loop {
            write(&one, "brief-0", Some(second)).await;
            let (memos, notes) = left(&mut client);
            if memos == ["brief-0", "brief-7", "long"] && notes == ["brief-0", "long"] {
                return;
            }
        }
    };
    let swept = tokio::time::timeout(LONG, sweeping).await;
    assert!(swept.is_ok(), "{:?}", left(&mut zookeeper.client()));
    for (name, expected) in [("brief-7", "stays"), ("long", "ends")] {
        let memo = one.memo(name).await.unwrap().memo;
        assert_eq!(memo.unwrap().text(), expected, "{name}");
    }
    // Another session, which knows nothing of the leader's time.
    let other = session(&zookeeper.url(), "ttl=30s").await;
    assert!(other.memo("long").await.unwrap().memo.is_some());
    let ending = async { while other.memo("brief-0").await.unwrap().memo.is_some() {} };
    tokio::time::timeout(LONG, ending).await.unwrap();
    assert_eq!(left(&mut client).0, ["brief-0", "brief-7", "long"]);
}
