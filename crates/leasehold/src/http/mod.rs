//! Fences over HTTP: headers for those who call, a layer of [`tower`] for those
//! who own the service. Whoever owns neither puts `leasehold gate` before it.
//!
//! [`tower`]: https://docs.rs/tower

mod doors;
mod headers;
mod layer;
mod marks;
mod porter;
mod problem;

pub use doors::{Doors, Pass};
pub use headers::{FENCE, RESOURCE, SIGNATURE, Shown, fence_headers};
pub use layer::{FenceLayer, Fenced, InFlight};
pub use porter::{Porter, Trust};
