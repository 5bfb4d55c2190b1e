//! What every lock promises, as tests.

#[doc(hidden)]
pub use crate::random::seeded::seed_this_thread;
