//! What must never reach a user's dependency tree: models of the protocols.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_panics_doc,
    reason = "a model panics when the code it drives contradicts itself"
)]

pub mod gate;
pub mod model;
