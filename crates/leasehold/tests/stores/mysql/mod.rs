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

use crate::sql::{Kind, Site};
use crate::steps::{LONG, heard, inspector, lock, lost, queue_of, session, wait_for_lock};

/// A database on the MariaDB that cases share.
fn mysql() -> Site {
    Kind::MariaDb.shared()
}

/// The database of one with these settings.
fn mysql_with(settings: &[&str]) -> Site {
    Kind::MariaDb.alone(settings)
}
