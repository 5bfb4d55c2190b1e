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

use crate::sql::{Kind, Site};
use crate::steps::{LONG, heard, inspector, lock, lost, queue_of, session, wait_for_lock};

/// A database on the server that cases share.
fn postgres() -> Site {
    Kind::Postgres.shared()
}

/// The database of one with these settings.
fn postgres_with(settings: &[&str]) -> Site {
    Kind::Postgres.alone(settings)
}
