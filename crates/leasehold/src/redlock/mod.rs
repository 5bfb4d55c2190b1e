//! Redlock: one lock on several independent Redis servers, held by whoever has
//! a majority of them.
//!
//! `quorum` decides, without I/O.

pub mod quorum;
