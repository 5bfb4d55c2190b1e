//! Waiting for a state that is bound to come.

use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to come to a state that it must come to.
pub const LONGEST: Duration = Duration::from_secs(120);

/// Waits until something is there.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONGEST;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {LONGEST:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
