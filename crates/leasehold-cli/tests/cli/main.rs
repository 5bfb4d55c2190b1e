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
#[cfg(feature = "etcd")]
#[path = "../../../leasehold/tests/server/etcd.rs"]
mod etcd_server;
mod fence;
mod gate;
mod hold;
mod latch;
mod look;
mod loss;
mod message;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
#[path = "../../../leasehold/tests/server/mysql.rs"]
mod mysql_server;
mod nested;
mod once;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
#[path = "../../../leasehold/tests/server/postgres.rs"]
mod postgres_server;
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
mod stamp;
mod stores;
mod stuck;
mod terminal;
mod world;
#[cfg(feature = "zookeeper")]
mod zookeeper;
#[cfg(feature = "zookeeper")]
#[path = "../../../leasehold/tests/server/zookeeper.rs"]
mod zookeeper_server;
