//! Where the store is. There is nothing else to choose.

use std::path::PathBuf;

/// A store in a file of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SqliteConfig {
    /// The database file; it and its folders are made if they are missing.
    pub(crate) path: PathBuf,
}
