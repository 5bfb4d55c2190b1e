//! The only file that reads a clock.
//!
//! Leases are counted on the boot clock, which goes on while the machine is
//! suspended; `std::time::Instant` and tokio's timers stand still then. So
//! sleeping is done on a kernel timer of that clock, where there is one.
//!
//! A virtual machine that is frozen by its host stops all of its clocks. For a
//! store on the same machine that is no danger, everyone was frozen alike; for
//! the rest the resource's fence is the only answer.

use std::ops::{Add, Sub};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

#[cfg(target_os = "linux")]
use tokio::net::unix::pipe::Receiver;

/// A point in time: how long after the clock's start it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

/// The clock a session lives by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    /// Time since the machine started, suspension included.
    Boot,
    /// The runtime's clock since the given instant; tests can pause it. For
    /// stores that live in this process.
    Runtime(tokio::time::Instant),
}

impl Clock {
    /// The runtime's clock, starting now.
    pub(crate) fn runtime() -> Self {
        Self::Runtime(tokio::time::Instant::now())
    }

    pub(crate) fn now(self) -> Moment {
        match self {
            Self::Boot => boot_time(),
            Self::Runtime(start) => Moment(start.elapsed()),
        }
    }

    /// Sleeps until the moment, counting time spent in suspension.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn sleep_until(self, moment: Moment) {
        match self {
            Self::Boot => sleep_until_boot_time(moment).await,
            Self::Runtime(start) => match start.checked_add(moment.0) {
                Some(instant) => tokio::time::sleep_until(instant).await,
                // No clock gets there.
                None => std::future::pending().await,
            },
        }
    }
}

/// Wall-clock time since 1970, for people and for records only.
pub(crate) fn wall_time() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Since 1970 on the clock that stamps files, whatever time this process is told.
#[cfg(all(feature = "sqlite", target_os = "linux"))]
pub(crate) fn file_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
}

#[cfg(all(feature = "sqlite", not(target_os = "linux")))]
pub(crate) fn file_time() -> Duration {
    wall_time()
}

#[cfg(target_os = "linux")]
pub(crate) fn boot_time() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // The boot clock starts at zero and both parts are never negative.
    Moment(Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    ))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn boot_time() -> Moment {
    Moment(process_start().elapsed())
}

#[cfg(not(target_os = "linux"))]
fn process_start() -> std::time::Instant {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    *START.get_or_init(std::time::Instant::now)
}

/// Sleeps on a kernel timer of the boot clock, which rings at once when the
/// machine resumes; without one, looks at the clock ten times a second.
async fn sleep_until_boot_time(moment: Moment) {
    #[cfg(target_os = "linux")]
    if let Some(_one) = OneOfFew::take()
        && let Ok(timer) = kernel_timer(moment)
        && timer.readable().await.is_ok()
    {
        return;
    }
    loop {
        let left = moment.since(boot_time());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(Duration::from_millis(100))).await;
    }
}

/// How many kernel timers the process has at once: each needs a descriptor, and
/// a thousand waits must not take those of the program.
#[cfg(target_os = "linux")]
const FEW: usize = 64;
#[cfg(target_os = "linux")]
static TIMERS: AtomicUsize = AtomicUsize::new(0);

#[cfg(target_os = "linux")]
struct OneOfFew;

#[cfg(target_os = "linux")]
impl OneOfFew {
    fn take() -> Option<Self> {
        let more = |taken| (taken < FEW).then_some(taken + 1);
        let taken = TIMERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Self)
    }
}

#[cfg(target_os = "linux")]
impl Drop for OneOfFew {
    fn drop(&mut self) {
        TIMERS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(target_os = "linux")]
fn kernel_timer(moment: Moment) -> std::io::Result<Receiver> {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
    // A zero time would disarm the timer; a past one rings at once.
    let at = moment.0.max(Duration::from_nanos(1));
    let value = Timespec {
        tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at.subsec_nanos().into(),
    };
    let interval = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let spec = Itimerspec {
        it_interval: interval,
        it_value: value,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec)?;
    // The runtime only waits until it can be read, which it does alike for a
    // pipe and for a timer.
    Receiver::from_owned_fd_unchecked(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_on_the_boot_clock_ends_at_its_moment_and_not_before() {
        let moment = boot_time() + Duration::from_millis(20);
        Clock::Boot.sleep_until(moment).await;
        assert!(boot_time() >= moment);
    }

    #[tokio::test]
    async fn a_sleep_until_a_past_moment_ends_at_once() {
        let past = boot_time() - Duration::from_secs(1);
        let sleep = Clock::Boot.sleep_until(past);
        tokio::time::timeout(Duration::from_secs(5), sleep)
            .await
            .expect("the moment has passed");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_thousand_sleeps_need_few_descriptors() {
        let moment = boot_time() + Duration::from_millis(300);
        let sleeps = (0..1000).map(|_| Clock::Boot.sleep_until(moment));
        let all = futures_util::future::join_all(sleeps);
        let timers = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let names = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            names
                .filter(|name| name.ends_with("anon_inode:[timerfd]"))
                .count()
        };
        let (_, timers) = tokio::join!(all, timers);
        assert!(timers <= FEW, "{timers}");
        assert!(boot_time() >= moment);
    }

    #[tokio::test]
    async fn a_sleep_until_the_end_of_time_does_not_end_or_panic() {
        for clock in [Clock::Boot, Clock::runtime()] {
            let end = clock.now() + Duration::MAX;
            let sleep = tokio::time::timeout(Duration::from_millis(20), clock.sleep_until(end));
            sleep.await.expect_err("the end of time has not come");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_runtime_clock_follows_paused_time() {
        let clock = Clock::runtime();
        let start = clock.now();
        clock.sleep_until(start + Duration::from_secs(3600)).await;
        assert!(clock.now().since(start) >= Duration::from_secs(3600));
    }
}
