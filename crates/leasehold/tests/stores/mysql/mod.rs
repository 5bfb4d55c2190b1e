//! Locks in real MariaDB servers: what lies in the tables, and what happens
//! when connections end, the server restarts, refuses, or answers are lost.

mod access;
mod barrier;
mod company;
mod cost;
mod faults;
mod galera;
mod lossy;
mod lossy_steps;
mod replica;
mod terms;
mod tied;
mod users_pool;

use crate::steps::{LONG, heard, inspector, lock, lost, queue_of, session, wait_for_lock};
use testbed::mysql::Mysql;

/// A server with these settings, or `None` if this machine has no MariaDB.
fn mysql(settings: &[&str]) -> (tempfile::TempDir, Mysql) {
    let folder = tempfile::tempdir().unwrap();
    let server = Mysql::start(folder.path(), settings);
    (folder, server)
}
