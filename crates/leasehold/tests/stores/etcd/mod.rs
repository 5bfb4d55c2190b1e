//! Locks on real etcd servers: what lies in the store, and what etcd alone may do to it.

mod access;
mod barrier;
mod interop;
mod jepsen;
mod late;
mod layout;
mod long;
mod memos;
mod store;
mod together;

pub(crate) use jepsen::play;

use crate::ensemble::ONE_ETCD as ONE;
use crate::steps::{inspector, lock, lost, queue_of, session, try_lock, wait_for_lock};
use testbed::etcd::{Etcd, Version};

/// A cluster of so many members.
fn cluster(members: usize) -> (tempfile::TempDir, Etcd) {
    cluster_with(members, &[])
}

/// The same, each member with these options beside.
fn cluster_with(members: usize, options: &[&str]) -> (tempfile::TempDir, Etcd) {
    let folder = tempfile::tempdir().unwrap();
    let etcd = Etcd::start_with(folder.path(), Version::System, members, options);
    (folder, etcd)
}
