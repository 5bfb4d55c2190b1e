//! Repeats a test of times on a machine that stood still meanwhile.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the probe wakes up.
const PERIOD: Duration = Duration::from_millis(10);
/// A machine that wakes it so much later stood still. Leases of such tests last at least
/// 3 s and are renewed every third of that.
const STALL: Duration = Duration::from_millis(500);
/// A machine that stands still each time is not fit for the test.
const TIMES: usize = 5;

/// Runs the test, and again if it failed while the machine stood still. What is repeated is
/// told first.
pub(crate) fn repeat(run: fn(), told: impl Fn(&str)) {
    for _ in 1..TIMES {
        let (ended, longest) = watched(run);
        match ended {
            Ok(()) => return,
            Err(payload) if longest < STALL => panic::resume_unwind(payload),
            Err(_) => told(&format!("the machine stood still for {longest:?}")),
        }
    }
    run();
}

/// Runs the test beside a probe, and gives the longest time that the probe slept too long.
fn watched(run: fn()) -> (Result<(), Box<dyn Any + Send>>, Duration) {
    let (is_over, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                thread::sleep(PERIOD);
                let late = asleep.elapsed().saturating_sub(PERIOD);
                let millis = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                longest.fetch_max(millis, Ordering::Relaxed);
            }
        });
        let ended = panic::catch_unwind(AssertUnwindSafe(run));
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    (ended, Duration::from_millis(longest.into_inner()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_failure_on_a_machine_that_ran_is_not_repeated() {
        let repeats = Cell::new(0);
        let failing = || repeat(|| panic!("it fails"), |_| repeats.set(repeats.get() + 1));
        assert!(panic::catch_unwind(AssertUnwindSafe(failing)).is_err());
        // Unless the machine really stood still, each time.
        assert!(repeats.get() < TIMES);
    }

    #[test]
    fn a_test_that_passes_runs_once() {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        repeat(|| _ = RUNS.fetch_add(1, Ordering::Relaxed), |_| ());
        assert_eq!(RUNS.load(Ordering::Relaxed), 1);
    }
}
