//! Locks in real PostgreSQL servers: what lies in the tables, and what happens
//! when connections end, the server restarts, refuses, or answers are lost.

mod access;
mod advisory;
mod advisory_faults;
mod cost;
mod defaults;
mod failover;
mod hosts;
mod pooler;
mod rule;
mod stamps;

use crate::steps::{LONG, heard, inspector, lock, lost, queue_of, session, wait_for_lock};
use testbed::postgres::Postgres;

/// A server with these settings, or `None` if this machine has no PostgreSQL.
fn postgres(settings: &[&str]) -> (tempfile::TempDir, Postgres) {
    let folder = tempfile::tempdir().unwrap();
    let server = Postgres::start(folder.path(), settings);
    (folder, server)
}
