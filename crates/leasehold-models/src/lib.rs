//! Models that run the pure parts of the library in every order of events. A
//! crate of its own, because it looks at millions of states and is the only one
//! here that must be optimised for that.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_panics_doc,
    reason = "a model panics when the code it drives contradicts itself"
)]

pub mod gate;
pub mod redlock;
