//! A process among those that are measured: `leasehold bench --worker ROLE`.
//! It prints one JSON line and ends.

use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::exit::{self, Failure};
use crate::print;
use serde::{Deserialize, Serialize};

use super::Setting;

/// What a worker does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// Locks one name again and again, holding it for so many microseconds.
    Contend { hold_micros: u64 },
    /// Holds so many locks and measures what that costs.
    Held { locks: usize },
    /// The same on a Redis server, whose costs it measures too.
    #[cfg(feature = "redis")]
    Keep { locks: usize },
    /// Answers requests over HTTP.
    Serve,
}

impl FromStr for Role {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (role, number) = text.split_once(':').ok_or("expected ROLE:NUMBER")?;
        let number: u64 = number.parse().map_err(|_| "expected a number")?;
        match role {
            "contend" => Ok(Self::Contend {
                hold_micros: number,
            }),
            "held" => Ok(Self::Held {
                locks: usize::try_from(number).unwrap_or(0),
            }),
            "serve" => Ok(Self::Serve),
            #[cfg(feature = "redis")]
            "keep" => Ok(Self::Keep {
                locks: usize::try_from(number).unwrap_or(0),
            }),
            _ => Err("unknown role".into()),
        }
    }
}

/// One hold in a contended lock, on the machine's clock.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct HoldRecord {
    pub(crate) token: u64,
    pub(crate) got: f64,
    pub(crate) gave: f64,
}

/// What holding many locks costs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct HeldRecord {
    pub(crate) core_percent: f64,
    pub(crate) bytes_per_lock: f64,
    pub(crate) still_held: usize,
}

pub(crate) async fn work(role: &Role, setting: &Setting) -> Result<u8, Failure> {
    match *role {
        Role::Contend { hold_micros } => {
            contend(setting, Duration::from_micros(hold_micros)).await?;
        }
        Role::Held { locks } => held(setting, locks).await?,
        Role::Serve => super::gate::serve().await?,
        #[cfg(feature = "redis")]
        Role::Keep { locks } => super::redis::keep(&setting.url, setting.time, locks).await?,
    }
    Ok(exit::OK)
}

/// Microseconds on a clock that all processes of the machine share.
fn now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds fit well into 53 bits"
    )]
    let micros = time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3;
    micros
}

async fn contend(setting: &Setting, hold: Duration) -> Result<(), Failure> {
    let session = leasehold::connect(&setting.url).await?;
    let mutex = session.mutex("leasehold-bench/contended");
    let mut records = Vec::new();
    let start = Instant::now();
    while start.elapsed() < setting.time {
        let guard = mutex.lock().await?;
        let got = now();
        if !hold.is_zero() {
            // A busy hold: a timer would measure the timer.
            let until = Instant::now() + hold;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        let token = guard.token().get();
        let gave = now();
        guard.release().await?;
        records.push(HoldRecord { token, got, gave });
    }
    session.close().await;
    print::json_line(&records)?;
    Ok(())
}

async fn held(setting: &Setting, locks: usize) -> Result<(), Failure> {
    let separator = if setting.url.contains('?') { '&' } else { '?' };
    // Three renewals a second, three times as often as with the default ttl.
    let session = leasehold::connect(&format!("{}{separator}ttl=3s", setting.url)).await?;
    let (guards, bytes_per_lock) = take_many(&session, locks).await?;
    let (cpu, start) = (cpu_time(), Instant::now());
    tokio::time::sleep(setting.time.max(Duration::from_secs(3))).await;
    let used = cpu_time().saturating_sub(cpu);
    let record = HeldRecord {
        core_percent: 100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64(),
        bytes_per_lock,
        still_held: guards.iter().filter(|guard| guard.check().is_ok()).count(),
    };
    print::json_line(&record)?;
    drop(guards);
    session.close().await;
    Ok(())
}

/// So many locks, and what each takes of our memory in bytes.
pub(crate) async fn take_many(
    session: &leasehold::Session,
    locks: usize,
) -> Result<(Vec<leasehold::Guard>, f64), Failure> {
    // The first lock brings the allocator and the statement cache to size.
    session
        .mutex("leasehold-bench/held/first")
        .lock()
        .await?
        .release()
        .await?;
    let before = resident_bytes();
    let mut guards = Vec::with_capacity(locks);
    for n in 0..locks {
        guards.push(
            session
                .mutex(format!("leasehold-bench/held/{n}"))
                .lock()
                .await?,
        );
    }
    let more = resident_bytes().saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "a size in bytes")]
    Ok((guards, more as f64 / locks as f64))
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * rustix::param::page_size()
}

pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
