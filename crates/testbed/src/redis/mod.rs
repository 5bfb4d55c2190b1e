//! Redis servers of our own: child processes on free ports of 127.0.0.1, in
//! folders that the test gives, ended when they are dropped.
//!
//! What blocks here blocks its thread: a test with sessions in the same process
//! wants a runtime with more than one.

mod cluster;
mod fleet;
mod replicated;
mod sentinel;
mod standalone;
mod versions;

use std::sync::OnceLock;

pub use cluster::Cluster;
pub use fleet::Fleet;
pub use replicated::Replicated;
pub use sentinel::Sentinel;
pub use standalone::{RedisServer, text};
pub use versions::{Version, lacks_clock, lacks_version};

use crate::process::runs;

const PROGRAM: &str = "redis-server";

/// The name of the missing program, if it is missing.
pub fn lacks_redis() -> Option<&'static str> {
    static RUNS: OnceLock<bool> = OnceLock::new();
    (!*RUNS.get_or_init(|| runs(PROGRAM, &["--version"]))).then_some(PROGRAM)
}

/// The name of the missing program, if Sentinel is missing.
pub fn lacks_sentinel() -> Option<&'static str> {
    static RUNS: OnceLock<bool> = OnceLock::new();
    let program = sentinel::PROGRAM;
    let lacks = (!*RUNS.get_or_init(|| runs(program, &["--version"]))).then_some(program);
    lacks.or(lacks_redis())
}
