//! Locks on real ZooKeeper servers: what lies in the store, what ZooKeeper alone may do to
//! it, and requests that get lost.

mod access;
mod barrier;
mod cut;
mod interop;
mod layout;
mod lossy;
mod memos;
mod overflow;
mod store;
mod watching;
mod way;

use crate::ensemble::ONE_ZOOKEEPER as ONE;
use crate::steps::{inspector, lock, lost, queue_of, session, wait_for_lock};
use testbed::zookeeper::{Client, Zookeeper};

/// An ensemble of so many servers.
fn ensemble(servers: usize) -> (tempfile::TempDir, Zookeeper) {
    ensemble_with(servers, &[])
}

fn ensemble_with(servers: usize, options: &[&str]) -> (tempfile::TempDir, Zookeeper) {
    let folder = tempfile::tempdir().unwrap();
    let zookeeper = Zookeeper::start_with(folder.path(), servers, "", options);
    (folder, zookeeper)
}

/// The only child of a node, as a path.
fn only_child(client: &mut Client, path: &str) -> String {
    let children = client.children(path).unwrap();
    assert_eq!(children.len(), 1, "{children:?}");
    format!("{path}/{}", children[0])
}
