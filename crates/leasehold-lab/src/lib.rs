//! What must never reach a user's dependency tree: runs of real processes on
//! real servers whose histories are checked.
#![forbid(unsafe_code)]

pub mod crew;
pub mod disk;
pub mod fault;
pub mod ground;
pub mod history;
pub mod hold;
pub mod invariant;
pub mod keeper;
pub mod matrix;
pub mod page;
pub mod proxy;
pub mod recorder;
pub mod resource;
pub mod story;
pub mod torture;
pub mod worker;
