//! The counter of a lock's node, set close to its end. It takes two thousand
//! million claims to get there; here the server's snapshot is edited.
//!
//! A server of 3.8 then gives the same number again and again, or a negative one
//! if requests come fast. Whoever goes by numbers has no order any more.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Zookeeper, ensemble, inspector, lock, queue_of, session, wait_for_lock};

/// The checksum at the end of a snapshot.
fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    (b << 16) | a
}

/// The newest snapshot in a folder.
fn snapshot(folder: &Path) -> std::path::PathBuf {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_snapshot = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("snapshot.")
    };
    let number = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        u64::from_str_radix(name.rsplit('.').next().unwrap(), 16).unwrap()
    };
    entries.filter(is_snapshot).max_by_key(number).unwrap()
}

/// Sets how many children a node has had.
fn preset(zookeeper: &mut Zookeeper, node: &str, counter: i32) {
    // When it starts, a server writes a snapshot of all that it has.
    zookeeper.servers[0].restart();
    zookeeper.servers[0].kill();
    let data = zookeeper.servers[0].folder.join("data/version-2");
    let file = snapshot(&data);
    let mut bytes = fs::read(&file).unwrap();
    let path = [
        &u32::try_from(node.len()).unwrap().to_be_bytes(),
        node.as_bytes(),
    ]
    .concat();
    let at = bytes
        .windows(path.len())
        .position(|part| part == path)
        .unwrap();
    // Behind the path: the data, the number of the access list, four numbers of
    // eight bytes, and the version.
    let data_at = at + path.len();
    let length = i32::from_be_bytes(bytes[data_at..data_at + 4].try_into().unwrap());
    let stat_at = data_at + 4 + usize::try_from(length.max(0)).unwrap() + 8;
    let counter_at = stat_at + 4 * 8 + 4;
    bytes[counter_at..counter_at + 4].copy_from_slice(&counter.to_be_bytes());
    // The checksum, and a slash behind it; a second pair may follow for the
    // digest, with a checksum of its own.
    seal(&mut bytes);
    fs::write(&file, bytes).unwrap();
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        if path != file && path.file_name().unwrap() != "acceptedEpoch" {
            let _ = fs::remove_file(path);
        }
    }
    zookeeper.servers[0].restart();
}

/// Writes every checksum anew: each is over all bytes before it.
fn seal(bytes: &mut [u8]) {
    const END: [u8; 5] = [0, 0, 0, 1, b'/'];
    let mut found = 0;
    let start = bytes.len().saturating_sub(200);
    for at in start..bytes.len() - 12 {
        if bytes[at..at + 4] == [0; 4] && bytes[at + 8..at + 13] == END {
            let sum = adler32(&bytes[..at]);
            bytes[at + 4..at + 8].copy_from_slice(&sum.to_be_bytes());
            found += 1;
        }
    }
    assert!(found > 0, "the snapshot has a checksum");
}

#[testbed::test]
async fn order_holds_when_the_counter_starts_again() {
    let (_folder, mut zookeeper) = ensemble(1);
    let one = session(&zookeeper.url(), "ttl=30s").await;
    lock(&one, "ledger").await.release().await.unwrap();
    one.close().await;
    preset(&mut zookeeper, "/ledger", i32::MAX - 1);
    let inspector = inspector(&zookeeper.url()).await;
    let mut sessions = Vec::new();
    for _ in 0..6 {
        sessions.push(session(&zookeeper.url(), "ttl=30s").await);
    }
    let first = lock(&sessions[0], "ledger").await;
    let mut waiting = Vec::new();
    for (number, session) in sessions[1..].iter().enumerate() {
        waiting.push(wait_for_lock(session, "ledger"));
        queue_of(&inspector, "ledger", number + 2).await;
    }
    // The server's counter sticks there: most of them have the same number.
    let nodes = zookeeper.client().children("/ledger").unwrap();
    let last = nodes.iter().filter(|node| node.ends_with("-2147483647"));
    assert!(last.count() > 1, "{nodes:?}");
    let mut token = first.token();
    first.release().await.unwrap();
    // Each gets it in turn all the same.
    for (number, next) in waiting.into_iter().enumerate() {
        let guard = next.await.unwrap();
        assert!(guard.token() > token, "{number}");
        token = guard.token();
        let queue = inspector.queue("ledger").await.unwrap();
        assert_eq!(queue.claims.len(), 5 - number);
        assert_eq!(queue.holders().count(), 1);
        guard.release().await.unwrap();
    }
}

/// Requests that come so fast that the server's counter jumps between its last
/// number and its first.
#[testbed::test]
async fn a_counter_at_its_end_never_lets_two_in() {
    let (_folder, mut zookeeper) = ensemble(1);
    let one = session(&zookeeper.url(), "ttl=30s").await;
    lock(&one, "ledger").await.release().await.unwrap();
    one.close().await;
    preset(&mut zookeeper, "/ledger", i32::MAX - 20);
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let session = session(&zookeeper.url(), "ttl=30s").await;
        let inside = inside.clone();
        tasks.push(tokio::spawn(async move {
            let mut last = None;
            for _ in 0..20 {
                let guard = lock(&session, "ledger").await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                assert!(last < Some(guard.token()));
                last = Some(guard.token());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}
