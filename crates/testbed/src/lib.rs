//! What the tests share: real servers as child processes on free ports, proxies that lose
//! what a test names, foreign clients, and a harness that says what it leaves out.
//!
//! What blocks here blocks its thread: a test with sessions in the same process wants a
//! runtime with more than one.
#![allow(missing_docs, reason = "nobody but our own tests depends on it")]

pub mod etcd;
mod harness;
pub mod mysql;
mod place;
mod pool;
mod ports;
pub mod postgres;
mod process;
pub mod proxy;
pub mod redis;
pub mod s3;
mod skip;
mod stall;
pub mod tls;
mod wait;
pub mod zookeeper;

#[doc(hidden)]
pub use inventory;
pub use testbed_macros::test;

pub use harness::{Test, block_on, left_out, note, run, run_trials, runs_all, times, trial};
pub use place::{scratch, tools};
pub use pool::{Lent, Placed, Pool, Shared};
pub use ports::free_port;
pub use process::Process;
pub use skip::{may_skip, need, skip};
pub use wait::{LONGEST, wait_for};
