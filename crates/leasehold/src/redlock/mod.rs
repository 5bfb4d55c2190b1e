//! Redlock: one lock on several independent Redis servers, held by whoever has
//! a majority of them.
//!
//! `quorum` decides and `node` is what the scripts on a server do, both without
//! I/O: the models in `leasehold-models` run exactly these two files. What an
//! operator sees of the nodes is here; the engine is beside the other Redis
//! engines.

// Public for the models in `leasehold-models` and for tests only.
#[cfg(any(test, feature = "conformance"))]
#[doc(hidden)]
pub mod node;
#[doc(hidden)]
pub mod quorum;

#[cfg(feature = "redis")]
mod fleet;
#[cfg(feature = "redis")]
pub use self::fleet::{Admission, NodeStatus, Standing, admit, status};
