//! Locks on real etcd servers: what lies in the store, and what happens when
//! members die, stand still, forget, or refuse.

mod access;
mod barrier;
mod cut;
mod interop;
mod jepsen;
mod late;
mod layout;
mod long;
mod members;
mod memos;
mod store;
mod together;

pub(crate) use jepsen::play;

use std::time::Duration;

use leasehold::{Guard, Inspector, Lost, Session};
use testbed::etcd::{Etcd, Version};

const LONG: Duration = Duration::from_secs(120);

/// A cluster of so many members, or `None` if this machine has no etcd.
fn cluster(members: usize) -> (tempfile::TempDir, Etcd) {
    cluster_with(members, &[])
}

/// The same, each member with these options beside.
fn cluster_with(members: usize, options: &[&str]) -> (tempfile::TempDir, Etcd) {
    let folder = tempfile::tempdir().unwrap();
    let etcd = Etcd::start_with(folder.path(), Version::System, members, options);
    (folder, etcd)
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
