//! The nodes as their operator looks at them.

use crate::config::{Config, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::redis::redlock::{self as engine, RedlockConfig};

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its address.
    pub node: String,
    /// Whether it counts.
    pub standing: Standing,
    /// The greatest counter that any lock may have there: no token is above the
    /// greatest of these.
    pub highest: u64,
    /// Whether every write is on its disk before it answers, so that it may come
    /// back after a restart by itself.
    pub keeps: bool,
}

/// Whether a node counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is admitted and has not restarted since; with `tokens=off`, where
    /// nobody is admitted, it answers.
    Good,
    /// It was never admitted: it is new, or it restarted empty.
    Empty,
    /// It restarted since it was admitted, and may have forgotten.
    Quarantined,
    /// It does not answer; why.
    Away(String),
}

/// A node that was let in again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admission {
    /// Its address.
    pub node: String,
    /// All tokens from here on are above this; `None` if it forgot nothing, so
    /// that nothing had to be raised.
    pub floor: Option<u64>,
}

/// How each node of this `redlock:` URL stands.
///
/// # Errors
/// `Config` if the URL is wrong or names a server that can be no node.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub async fn status(url: &str) -> Result<Vec<NodeStatus>> {
    engine::status(&config(url)?).await
}

/// Lets nodes in again that restarted: these, or all if none is named. First
/// the counters of the others jump ahead, so that nothing which is under way
/// can be granted with the help of what the node has forgotten.
///
/// # Errors
/// `Unavailable` if too few other nodes are in good standing, `Usage` if there
/// is no such node.
///
/// # Cancel safety
/// Dropping the future may leave counters raised, which does no harm, and some
/// nodes admitted.
pub async fn admit(url: &str, nodes: &[String]) -> Result<Vec<Admission>> {
    engine::admit(&config(url)?, nodes).await
}

fn config(url: &str) -> Result<RedlockConfig> {
    match Config::parse(url)?.store {
        Store::Redlock(config) => Ok(*config),
        store => {
            let why = format!("this is about redlock: only, not {}:", store.scheme());
            Err(Error::new(ErrorKind::Usage, "look at the nodes", why))
        }
    }
}
