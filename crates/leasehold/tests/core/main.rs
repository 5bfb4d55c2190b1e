//! What needs no server: the session on the memory store, single faults, the simulation,
//! telemetry, and fences over HTTP.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used)]

mod api;
mod blocking;
mod faults;
#[cfg(feature = "http")]
mod fence_http;
mod simulation;
mod telemetry;
