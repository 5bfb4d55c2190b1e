//! Redlock under faults, every state of it.
//!
//! The clients decide by `quorum.rs` and the nodes do what `node.rs` does: the
//! code that ships and the reference of its scripts, not copies. What is built
//! here is the world around them. A request reaches its node at any time after
//! it was sent, also after its sender gave up, or never; its reply is heard or
//! lost. A pause is a step that comes late. Keys vanish on time or at any time,
//! requests arrive twice, nodes forget everything.
//!
//! The deliberately broken variants live here too, around that code: a model
//! that no longer finds what is wrong with them finds nothing.

mod access;
mod action;
mod canon;
mod client;
mod property;
mod readmit;
pub mod row;
pub mod rows;
mod rules;
mod server;
mod world;

pub use property::Property;
pub use rules::{Expiry, Remedy, Renewals, Rules, Scheme};
pub use world::Redlock;
