//! Distributed locks.
#![forbid(unsafe_code)]

pub mod engine;
pub mod fence;
pub mod rule;

mod backoff;
mod clock;
mod error;
mod guard;
mod lease;
mod name;
mod owner;
mod promises;
mod random;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
mod sqlite;

pub use error::{Effect, Error, ErrorKind, Result};
pub use fence::{Fence, Token};
pub use guard::Lost;
pub use name::Name;
pub use owner::Owner;
pub use promises::{Freed, Grade, Promises, Reach};
