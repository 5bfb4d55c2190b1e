//! Memos that are kept for a time: what is left of them.

use std::time::Duration;

use leasehold::Session;

use super::{Client, ONE, ensemble, lock, session};
use crate::LONG;

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
    let about = |note: String| note.splitn(3, '-').nth(2).map(str::to_owned);
    let mut notes: Vec<_> = notes.into_iter().filter_map(about).collect();
    memos.sort();
    notes.sort();
    notes.dedup();
    (memos, notes)
}

#[testbed::test]
async fn memos_that_have_ended_are_removed_by_those_who_write_others() {
    let zookeeper = ONE.take();
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

/// What others put there: where hours are, where folders are, in a folder that is due,
/// and below a memo that has ended, which can then not be removed.
fn strangers(client: &mut Client) -> Vec<&'static str> {
    let strangers = vec![
        "/.leasehold/ends/notes",
        "/.leasehold/ends/1",
        "/.leasehold/ends/1/strange",
        "/.leasehold/ends/2",
        "/.leasehold/ends/2/7200",
        "/.leasehold/ends/2/7200/strange",
        "/.leasehold/ends/2/7200/1-x-strange",
        "/.leasehold/memo/blocked/strange",
    ];
    for path in &strangers {
        client.create(path, 0).unwrap();
    }
    strangers
}

/// Everything below the notes' folder but for what strangers put there, and the notes on
/// the memo that they block.
fn folders(client: &mut Client) -> Vec<String> {
    let mut found = Vec::new();
    for hour in client.children("/.leasehold/ends").unwrap() {
        let hour = format!("/.leasehold/ends/{hour}");
        found.extend(client.children(&hour).unwrap_or_default());
        found.push(hour);
    }
    found
}

#[testbed::test]
async fn several_writers_remove_what_has_ended_and_leave_what_is_not_theirs() {
    let (_folder, zookeeper) = ensemble(3);
    let second = Duration::from_secs(1);
    let mut sessions = Vec::new();
    for server in 0..4 {
        sessions.push(session(&zookeeper.url_from(server % 3), "ttl=30s").await);
    }
    write(&sessions[0], "blocked", Some(second)).await;
    write(&sessions[0], "long", Some(second * 3600)).await;
    let strangers = strangers(&mut zookeeper.client());
    // One after the other as well, so that notes have folders of their own.
    for number in 0..6 {
        write(&sessions[0], &format!("alone-{number}"), Some(second)).await;
        tokio::time::sleep(second * 2).await;
    }
    let crowd = sessions.iter().enumerate().map(|(writer, session)| {
        let session = session.clone();
        tokio::spawn(async move {
            for number in 0..60 {
                write(&session, &format!("brief-{writer}-{number}"), Some(second)).await;
            }
        })
    });
    for writer in crowd.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let mut client = zookeeper.client();
    let sweeping = async {
        loop {
            for (writer, session) in sessions.iter().enumerate() {
                write(session, &format!("last-{writer}"), Some(second)).await;
            }
            let (memos, notes) = left(&mut client);
            let is_last = |name: &&String| !name.starts_with("last-");
            let memos: Vec<_> = memos.iter().filter(is_last).collect();
            let notes: Vec<_> = notes.iter().filter(is_last).collect();
            if memos == ["blocked", "long"] && notes == ["blocked", "long", "strange"] {
                return;
            }
        }
    };
    let swept = tokio::time::timeout(LONG, sweeping).await;
    assert!(swept.is_ok(), "{:?}", left(&mut client));
    for path in strangers {
        assert!(client.stat(path).is_ok(), "{path} is gone");
    }
    // Of folders there are those of the last writes, of the memo that stays, of the one
    // that is blocked, and what strangers made.
    let found = folders(&mut client);
    assert!(found.len() < 30, "{found:?}");
    assert_eq!(
        sessions[1].memo("long").await.unwrap().memo.unwrap().text(),
        "ends"
    );
    assert_eq!(sessions[1].memo("blocked").await.unwrap().memo, None);
}

/// Folders that are full are not filled any further.
#[testbed::test]
async fn a_folder_that_is_full_is_followed_by_others() {
    let zookeeper = ONE.take();
    let one = session(&zookeeper.url(), "ttl=30s").await;
    // A time so long that all of it has one folder.
    let keep = Duration::from_secs(3600);
    write(&one, "first", Some(keep)).await;
    let mut client = zookeeper.client();
    let hour = client.children("/.leasehold/ends").unwrap().remove(0);
    let above = format!("/.leasehold/ends/{hour}");
    let second: u64 = client.children(&above).unwrap()[0].parse().unwrap();
    // The present one and the next, lest a minute ends meanwhile.
    for second in [second, second + 60] {
        let folder = format!("/.leasehold/ends/{}/{second}", second / 3600);
        for path in [folder.rsplit_once('/').unwrap().0, &folder] {
            let _ = client.create(path, 0);
        }
        for number in 0..1000 {
            client.create(&format!("{folder}/9-9-{number}"), 0).unwrap();
        }
    }
    write(&one, "second", Some(keep)).await;
    let mut found = Vec::new();
    for hour in client.children("/.leasehold/ends").unwrap() {
        found.extend(
            client
                .children(&format!("/.leasehold/ends/{hour}"))
                .unwrap(),
        );
    }
    let others: Vec<_> = found.iter().filter(|folder| folder.contains('-')).collect();
    assert_eq!(others.len(), 1, "{found:?}");
    assert_eq!(
        one.memo("second").await.unwrap().memo.unwrap().text(),
        "ends"
    );
}
