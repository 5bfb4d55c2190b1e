//! Locks on real ZooKeeper servers: what lies in the store, and what happens
//! when servers die, stand still, or refuse, and requests get lost.

mod access;
mod barrier;
mod cut;
mod interop;
mod layout;
mod lossy;
mod memos;
mod overflow;
mod servers;
mod store;
mod watching;
mod way;

use std::time::Duration;

use leasehold::{Guard, Inspector, Lost, Session};
use testbed::zookeeper::{Client, Zookeeper};

const LONG: Duration = Duration::from_secs(120);

/// An ensemble of so many servers, or `None` if this machine has no ZooKeeper.
fn ensemble(servers: usize) -> (tempfile::TempDir, Zookeeper) {
    ensemble_with(servers, &[])
}

fn ensemble_with(servers: usize, options: &[&str]) -> (tempfile::TempDir, Zookeeper) {
    let folder = tempfile::tempdir().unwrap();
    let zookeeper = Zookeeper::start_with(folder.path(), servers, options);
    (folder, zookeeper)
}

async fn session(url: &str, options: &str) -> Session {
    leasehold::connect(&format!("{url}?{options}"))
        .await
        .unwrap()
}

async fn lock(session: &Session, name: &str) -> Guard {
    session.mutex(name).lock_within(LONG).await.unwrap()
}

async fn lost(guard: &Guard) -> Lost {
    tokio::time::timeout(LONG, guard.lost())
        .await
        .expect("it is told")
}

async fn inspector(url: &str) -> Inspector {
    leasehold::inspect(url).await.unwrap()
}

/// Waits until so many claims are in the queue.
async fn queue_of(inspector: &Inspector, name: &str, length: usize) {
    let waiting = async {
        while inspector.queue(name).await.unwrap().claims.len() != length {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting)
        .await
        .expect("the queue has the length");
}

/// Somebody who waits for a lock in the background.
fn wait_for_lock(session: &Session, name: &str) -> tokio::task::JoinHandle<Guard> {
    let mutex = session.mutex(name);
    tokio::spawn(async move { mutex.lock_within(LONG).await.unwrap() })
}

/// The only child of a node, as a path.
fn only_child(client: &mut Client, path: &str) -> String {
    let children = client.children(path).unwrap();
    assert_eq!(children.len(), 1, "{children:?}");
    format!("{path}/{}", children[0])
}
