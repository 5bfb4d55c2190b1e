//! Distributed locks done right: one API on the store you already run, a
//! fencing token on every grant, and a loss that is told *before* another can
//! hold.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
//! let session = leasehold::connect("memory:").await?; // or "sqlite:locks.db"
//! let guard = session.mutex("jobs/nightly").lock().await?;
//! let receipt = guard.run(|token| async move { format!("done under {token}") }).await?;
//! println!("{receipt}");
//! guard.release().await
//! # }
//! ```
//!
//! A lock is a queue of claims kept in a store. A claim lives as long as its
//! session's lease; a watchdog keeps the lease alive and says *lost* before the
//! store can give the claim away. A held claim is a [`Guard`].
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]
// Public through the crate root only.
#![allow(clippy::module_name_repetitions)]

pub mod blocking;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod deadlock;
pub mod dedupe;
pub mod election;
pub mod engine;
pub mod fence;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "mysql")]
pub mod mysql;
pub mod once;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod rule;

mod acquire;
mod attempt;
mod backoff;
mod barrier;
mod clock;
mod config;
mod core;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
mod gather;
mod guard;
mod hold;
mod inspector;
mod latch;
mod lease;
mod local;
mod looking;
mod memo;
mod memory;
mod multi;
mod mutex;
mod name;
mod owner;
mod phase;
mod promises;
mod random;
mod reaper;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(test, feature = "redis", feature = "conformance"))]
pub mod redlock;
mod reentrant;
mod rwlock;
mod semaphore;
mod session;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
mod sqlite;
mod stamp;
mod stuck;
mod tally;
mod telemetry;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tls;
mod watchdog;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use barrier::{Barrier, Entered};
pub use config::parse_duration;
pub use engine::{Memo, Reading};
pub use error::{Effect, Error, ErrorKind, Result};
#[doc(hidden)]
#[cfg(feature = "etcd")]
pub use etcd::BareEtcd;
pub use fence::{Fence, Token};
pub use guard::{Guard, Lost};
pub use inspector::{Inspector, inspect};
pub use latch::Latch;
pub use memo::LONGEST_MEMO;
pub use memory::Memory;
pub use multi::{Guards, LockAll};
pub use mutex::Mutex;
pub use name::Name;
pub use owner::Owner;
pub use promises::{Freed, Grade, Promises, Reach};
pub use reentrant::Reentrant;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use session::{Session, connect, open_default};
pub use stamp::{ParseStampError, Stamp, StampWord};
pub use stuck::Stuck;
pub use tally::MOST_MEMBERS;
#[doc(hidden)]
#[cfg(feature = "zookeeper")]
pub use zookeeper::BareZookeeper;

/// The URL of the store that [`open_default`] uses.
///
/// # Errors
/// `Config` if there is no home directory to put it in.
pub fn default_url() -> Result<String> {
    config::default_url()
}

/// For measuring: etcd without leasehold, through the same client.
///
/// # Errors
/// `Config` if the URL is not for etcd; else as for [`connect`].
///
/// # Cancel safety
/// A lease may be left for an hour.
#[doc(hidden)]
#[cfg(feature = "etcd")]
pub async fn bare_etcd(url: &str) -> Result<BareEtcd> {
    match config::Config::parse(url)?.store {
        config::Store::Etcd(config) => BareEtcd::connect(&config).await,
        _ => Err(Error::new(ErrorKind::Config, "measure", "not an etcd URL")),
    }
}

/// For measuring: PostgreSQL without leasehold, through the same client.
///
/// # Errors
/// `Config` if the URL is not for PostgreSQL; else as for [`connect`].
///
/// # Cancel safety
/// A table may be left.
#[doc(hidden)]
#[cfg(feature = "postgres")]
pub async fn bare_postgres(url: &str, names: &[String]) -> Result<postgres::BarePostgres> {
    match config::Config::parse(url)?.store {
        config::Store::Postgres(config) => postgres::BarePostgres::connect(&config, names).await,
        _ => Err(Error::new(
            ErrorKind::Config,
            "measure",
            "not a PostgreSQL URL",
        )),
    }
}

/// For measuring: PostgreSQL's advisory locks without leasehold, through the same
/// client.
///
/// # Errors
/// `Config` if the URL is not for PostgreSQL; else as for [`connect`].
///
/// # Cancel safety
/// Nothing is left.
#[doc(hidden)]
#[cfg(feature = "postgres")]
pub async fn bare_advisory(url: &str, tasks: usize) -> Result<postgres::BareAdvisory> {
    match config::Config::parse(url)?.store {
        config::Store::Postgres(config) => postgres::BareAdvisory::connect(&config, tasks).await,
        _ => Err(Error::new(
            ErrorKind::Config,
            "measure",
            "not a PostgreSQL URL",
        )),
    }
}

/// MySQL without leasehold, for measuring only.
///
/// # Errors
/// What the server says.
///
/// # Cancel safety
/// A table may be left.
#[doc(hidden)]
#[cfg(feature = "mysql")]
pub async fn bare_mysql(url: &str, names: &[String]) -> Result<mysql::BareMysql> {
    match config::Config::parse(url)?.store {
        config::Store::Mysql(config) => mysql::BareMysql::connect(&config, names).await,
        _ => Err(Error::new(ErrorKind::Config, "measure", "not a MySQL URL")),
    }
}

/// For measuring: the server's named locks without leasehold, through the same client.
///
/// # Errors
/// `Config` if the URL is not for MySQL; else as for [`connect`].
///
/// # Cancel safety
/// Nothing is left.
#[doc(hidden)]
#[cfg(feature = "mysql")]
pub async fn bare_named_lock(url: &str, tasks: usize) -> Result<mysql::BareNamedLock> {
    match config::Config::parse(url)?.store {
        config::Store::Mysql(config) => mysql::BareNamedLock::connect(&config, tasks).await,
        _ => Err(Error::new(ErrorKind::Config, "measure", "not a MySQL URL")),
    }
}

/// The program in README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// For measuring: ZooKeeper without leasehold, through the same client.
///
/// # Errors
/// `Config` if the URL is not for ZooKeeper; else as for [`connect`].
///
/// # Cancel safety
/// A session may be left until the servers end it.
#[doc(hidden)]
#[cfg(feature = "zookeeper")]
pub async fn bare_zookeeper(url: &str) -> Result<BareZookeeper> {
    match config::Config::parse(url)?.store {
        config::Store::Zookeeper(config) => BareZookeeper::connect(&config).await,
        _ => Err(Error::new(ErrorKind::Config, "measure", "not a zk URL")),
    }
}
