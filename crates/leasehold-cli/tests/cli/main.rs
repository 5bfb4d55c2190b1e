//! The command line as a black box: output, exit codes, signals, and the life
//! and death of the command that it runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod barrier;
mod bench;
mod child;
mod clocks;
mod codes;
mod disk;
mod elect;
#[cfg(feature = "etcd")]
mod etcd;
mod fence;
mod gate;
mod hold;
mod latch;
mod look;
mod loss;
mod message;
#[cfg(feature = "mysql")]
mod mysql;
mod nested;
mod once;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_faults;
#[cfg(feature = "redis")]
mod redis_server;
#[cfg(feature = "redis")]
mod redlock;
#[cfg(feature = "redis")]
mod redlock_input;
#[cfg(feature = "redis")]
mod redlock_nodes;
mod run;
mod schema;
mod stamp;
mod stores;
mod stuck;
mod terminal;
mod world;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::process::ExitCode;

/// Tests at the same time. Each starts processes of its own, which mostly wait.
const AT_ONCE: usize = 4;

fn main() -> ExitCode {
    testbed::run_trials(AT_ONCE, stores::trials())
}
