//! Redlock: one lock on several independent Redis servers, held by whoever has
//! a majority of them.
//!
//! `quorum` decides, without I/O. What an operator sees of the nodes is here;
//! the engine is beside the other Redis engines.

// Public for the models in `leasehold-lab` only.
#[doc(hidden)]
pub mod quorum;

#[cfg(feature = "redis")]
mod fleet;
#[cfg(feature = "redis")]
pub use self::fleet::{Admission, NodeStatus, Standing, admit, status};
