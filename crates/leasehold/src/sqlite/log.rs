//! The length of SQLite's log, and when to bring it into the database.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rusqlite::Connection;

use super::fault::Fault;

/// The log is brought into the database when it is longer. SQLite finds a page
/// in the log by a chain of all its versions, so a long log is a slow one.
pub(super) const LOG_BYTES: u64 = 1 << 19;
/// The log is kept from growing, at the cost of writers, when it is longer.
const LOG_BYTES_AT_MOST: u64 = 4 * LOG_BYTES;
/// How often the log's length is looked at.
const COMMITS_BETWEEN_LOOKS: u32 = 64;

/// What is known of the log. Every process looks for itself; two that tend it
/// at once do no harm.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    commits: AtomicU32,
    /// The length at which it is tended next.
    long_from: AtomicU64,
    is_long: AtomicBool,
    is_too_long: AtomicBool,
}

impl Log {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            commits: AtomicU32::new(0),
            long_from: AtomicU64::new(LOG_BYTES),
            is_long: AtomicBool::new(false),
            is_too_long: AtomicBool::new(false),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |log| log.len())
    }

    /// Counts a commit. The first one looks, so that many short processes do
    /// not make the log long unseen.
    pub(super) fn grew(&self) {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed);
        if !commits.is_multiple_of(COMMITS_BETWEEN_LOOKS) {
            return;
        }
        let bytes = self.bytes();
        // While others write the log does not get shorter, and doing the same
        // again at once would only keep the disk busy.
        if bytes <= LOG_BYTES {
            self.long_from.store(LOG_BYTES, Ordering::Relaxed);
        } else if bytes > self.long_from.load(Ordering::Relaxed) {
            self.long_from.store(bytes + LOG_BYTES, Ordering::Relaxed);
            self.is_long.store(true, Ordering::Relaxed);
        }
        let is_too_long = bytes > LOG_BYTES_AT_MOST;
        self.is_too_long.store(is_too_long, Ordering::Relaxed);
    }

    /// Whether it should be tended in the background; says so once.
    pub(super) fn is_due(&self) -> bool {
        self.is_long.load(Ordering::Relaxed) && self.is_long.swap(false, Ordering::Relaxed)
    }

    /// Whether the next writer has to tend it, because it grows faster than
    /// others can shorten it; says so once.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.is_too_long.load(Ordering::Relaxed) && self.is_too_long.swap(false, Ordering::Relaxed)
    }
}

/// Brings as much of the log into the database as nobody is in the way of.
pub(super) fn checkpoint(connection: &Connection) -> Result<(), Fault> {
    let sql = "pragma wal_checkpoint(passive)";
    Ok(connection.query_row(sql, [], |_| Ok(()))?)
}
