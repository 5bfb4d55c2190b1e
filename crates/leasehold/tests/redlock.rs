//! Redlock on real servers: what its page promises beside what every store does.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

mod proxy;
mod server;

#[path = "redlock/access.rs"]
mod access;
#[path = "redlock/bad_input.rs"]
mod bad_input;
#[path = "redlock/clocks.rs"]
mod clocks;
#[path = "redlock/failing.rs"]
mod failing;
#[path = "redlock/founding.rs"]
mod founding;
#[path = "redlock/presence.rs"]
mod presence;
#[path = "redlock/quarantine.rs"]
mod quarantine;
#[path = "redlock/rounds.rs"]
mod rounds;
#[path = "redlock/scene.rs"]
mod scene;
#[path = "redlock/scripts.rs"]
mod scripts;
#[path = "redlock/sizes.rs"]
mod sizes;
#[path = "redlock/twins.rs"]
mod twins;
