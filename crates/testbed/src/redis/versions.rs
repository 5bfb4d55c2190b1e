//! Servers of other versions than the system's. `cargo xtask test` brings them
//! into `target/tools/servers`.

use std::path::PathBuf;

use crate::tools;

/// A version that the tests can start beside the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Older than anything we support.
    Redis5,
    /// The oldest that we support.
    Redis6,
    /// Newer than Debian's Redis: it has `WAITAOF`, `SET … IFEQ`, `DELIFEQ`.
    Valkey9,
}

impl Version {
    pub const ALL: [Self; 3] = [Self::Redis5, Self::Redis6, Self::Valkey9];

    pub fn program(self) -> PathBuf {
        let name = match self {
            Self::Redis5 => "redis-5.0.6/redis-server",
            Self::Redis6 => "redis-6.2.5/redis-server",
            Self::Valkey9 => "valkey-9.1.2/valkey-server",
        };
        tools().join("servers").join(name)
    }
}

/// The name of the missing version, if it is missing.
pub fn lacks_version(version: Version) -> Option<&'static str> {
    let name = match version {
        Version::Redis5 => "redis-5.0.6 (cargo xtask tools)",
        Version::Redis6 => "redis-6.2.5 (cargo xtask tools)",
        Version::Valkey9 => "valkey-9.1.2 (cargo xtask tools)",
    };
    (!version.program().is_file()).then_some(name)
}

/// The name of what is missing, if no server's clock can be moved.
pub fn lacks_clock() -> Option<&'static str> {
    let library = tools().join("servers/clock/clock.so");
    (!library.is_file()).then_some("clock (cargo xtask tools)")
}
