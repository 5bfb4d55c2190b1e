//! Hand-over with many waiting sessions: how many commands it takes, how long,
//! and how evenly the lock goes round. The sessions stand in a ring: whoever
//! gives the lock back asks for it again, at once if hand-overs go back to back,
//! else when the next has it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold::Session;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::bench::report::{Goal, Report, median, micros};
use crate::exit::Failure;

use super::Bench;
use super::slice::evenness;

const NAME: &str = "leasehold-bench/ring";
/// The ring rests if the server has run no script for so long.
const REST: Duration = Duration::from_millis(100);
/// What a process needs beside its connections.
const OTHER_FILES: u64 = 64;
/// How often the lock goes round at least, so that evenness means something.
const ROUND_TRIPS: usize = 8;
const PINGS: usize = 100;
/// A hold so short that it hardly counts and so long that hand-overs do not meet.
const HOLD: Duration = Duration::from_millis(1);

pub(crate) async fn waiting(
    bench: &Bench<'_>,
    waiting: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let part = format!("{waiting} sessions wait");
    let part = part.as_str();
    let needed = waiting as u64 + 1 + OTHER_FILES;
    if let Err(limit) = allow_files(needed) {
        let why =
            format!("left out: needs {needed} open files, the limit is {limit} (`ulimit -n`)");
        return report.note(part, &why);
    }
    let mut sessions = Vec::with_capacity(waiting + 1);
    // No renewal falls into the measurement, which counts requests.
    let url = with_option(&bench.setting.url, "ttl=60s");
    for _ in 0..=waiting {
        match leasehold::connect(&url).await {
            Ok(session) => sessions.push(session),
            Err(error) => {
                let so_far = sessions.len();
                report.note(part, &format!("left out after {so_far} sessions: {error}"))?;
                close(sessions).await;
                return Ok(());
            }
        }
    }
    let ring = Ring::start(&sessions);
    let measured = measure(bench, &ring, sessions.len(), part, report).await;
    ring.stop().await?;
    close(sessions).await;
    measured
}

async fn measure(
    bench: &Bench<'_>,
    ring: &Ring,
    sessions: usize,
    part: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    bench.rests().await?;
    let (mut pings, mut calm_pings) = (vec![], vec![]);
    bench.ping(&mut pings, &mut calm_pings).await?;

    // Back to back, in whole round trips, to count requests and grants.
    let before = bench.server.counts().await?;
    ring.shared().clear();
    let start = Instant::now();
    ring.go(Duration::ZERO);
    ring.until(bench.setting.time / 2, sessions, ROUND_TRIPS)
        .await;
    ring.halt();
    let took = start.elapsed();
    bench.rests().await?;
    let counts = bench.server.counts().await?.since(before);
    // Self-checks go on while the ring comes to rest.
    let watched = start.elapsed();
    let (grants, mut gaps) = ring.shared().take(sessions);
    let handovers = gaps.len();
    bench.ping(&mut pings, &mut calm_pings).await?;

    // With a short hold, so that only one hand-over is under way at a time.
    ring.go(HOLD);
    ring.until(bench.setting.time / 2, 1, 50).await;
    ring.halt();
    bench.rests().await?;
    let (_, mut calm_gaps) = ring.shared().take(sessions);
    bench.ping(&mut pings, &mut calm_pings).await?;

    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    let (per_handover, proofs, rate) = (
        counts.evalsha as f64 / handovers as f64,
        counts.publish.saturating_sub(handovers as u64) as f64
            / sessions as f64
            / watched.as_secs_f64(),
        handovers as f64 / took.as_secs_f64(),
    );
    let said = format!(
        "counted: {handovers} hand-overs, {} EVALSHA, {} PUBLISH (one in each hand-over)",
        counts.evalsha, counts.publish
    );
    report.note(part, &said)?;
    report.figure(
        part,
        "EVALSHA per hand-over",
        per_handover,
        "",
        Goal::AtMost(2.0),
    )?;
    report.figure(
        part,
        "self-checks per session",
        proofs,
        "1/s",
        Goal::AtMost(two_a_second(watched)),
    )?;
    report.figure(part, "hand-overs, back to back", rate, "1/s", Goal::None)?;
    let even = evenness(&grants);
    report.figure(
        part,
        "min/max grants per session",
        even,
        "",
        Goal::AtLeast(0.8),
    )?;
    // Like with like: a machine that sleeps for a millisecond wakes later.
    for (pace, pings, gaps, goal) in [
        ("back to back", &mut pings, &mut gaps, Goal::None),
        (
            "1 ms apart",
            &mut calm_pings,
            &mut calm_gaps,
            Goal::AtMost(2.0),
        ),
    ] {
        let (ping, gap) = (median(pings), median(gaps));
        report.figure(part, &format!("ping, p50, {pace}"), ping, "us", Goal::None)?;
        let what = format!("release to granted, {pace}");
        report.figure(part, &what, gap, "us", Goal::None)?;
        report.figure(part, &format!("in pings, {pace}"), gap / ping, "x", goal)?;
    }
    Ok(())
}

impl Bench<'_> {
    /// Pings one after the other, and with pauses as long as the ring's holds.
    async fn ping(&self, pings: &mut Vec<f64>, calm: &mut Vec<f64>) -> Result<(), Failure> {
        pings.push(self.server.ping(PINGS, Duration::ZERO).await?);
        calm.push(self.server.ping(PINGS, HOLD).await?);
        Ok(())
    }

    /// Waits until the ring rests: one holds, all others have asked and wait.
    async fn rests(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let (mut last, mut since) = (None, Instant::now());
        while since.elapsed() < REST {
            let scripts = Some(self.server.counts().await?.evalsha);
            if last != scripts {
                (last, since) = (scripts, Instant::now());
            }
            if Instant::now() > deadline {
                let why = "others run scripts on this server all the time; nothing can be counted";
                return Err(Failure::new(crate::exit::UNAVAILABLE, why));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// What the holder of the ring's lock shall do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Halt,
    Hold(Duration),
    Stop,
}

/// What happened in the ring.
#[derive(Debug, Default)]
struct Log {
    /// Which session got the lock.
    grants: Vec<usize>,
    /// From giving the lock back to having it, in microseconds.
    gaps: Vec<f64>,
    given: Option<Instant>,
}

impl Log {
    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Grants per session, and the gaps.
    fn take(&mut self, sessions: usize) -> (Vec<usize>, Vec<f64>) {
        let log = std::mem::take(self);
        let mut grants = vec![0; sessions];
        for session in log.grants {
            grants[session] += 1;
        }
        (grants, log.gaps)
    }
}

struct Ring {
    pace: watch::Sender<Pace>,
    log: Arc<Mutex<Log>>,
    tasks: JoinSet<leasehold::Result<()>>,
}

impl Ring {
    fn start(sessions: &[Session]) -> Self {
        let (pace, _) = watch::channel(Pace::Halt);
        let granted = watch::Sender::new(0_u64);
        let log: Arc<Mutex<Log>> = Arc::default();
        let mut tasks = JoinSet::new();
        for (number, session) in sessions.iter().enumerate() {
            let (mutex, log, mut pace) = (session.mutex(NAME), log.clone(), pace.subscribe());
            let granted = granted.clone();
            tasks.spawn(async move {
                loop {
                    let guard = mutex.lock().await?;
                    note_grant(&log, number);
                    granted.send_modify(|times| *times += 1);
                    let mut next = granted.subscribe();
                    let pace = pace.wait_for(|pace| *pace != Pace::Halt).await;
                    let pace = pace.map_or(Pace::Stop, |pace| *pace);
                    if let Pace::Hold(time) = pace
                        && !time.is_zero()
                    {
                        tokio::time::sleep(time).await;
                    }
                    lock(&log).given = Some(Instant::now());
                    guard.release().await?;
                    match pace {
                        Pace::Stop => return Ok(()),
                        // Asking again at once would take the time of whoever is next.
                        Pace::Hold(time) if !time.is_zero() => {
                            let _ = next.changed().await;
                        }
                        Pace::Hold(_) | Pace::Halt => {}
                    }
                }
            });
        }
        Self { pace, log, tasks }
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Log> {
        lock(&self.log)
    }

    fn go(&self, hold: Duration) {
        self.pace.send_replace(Pace::Hold(hold));
    }

    fn halt(&self) {
        self.pace.send_replace(Pace::Halt);
    }

    /// Lets the ring go on for the time, and until the lock went round so often.
    async fn until(&self, time: Duration, sessions: usize, times: usize) {
        let start = Instant::now();
        while start.elapsed() < time || self.shared().gaps.len() < sessions * times {
            tokio::time::sleep(Duration::from_millis(2)).await;
            if start.elapsed() > time + Duration::from_secs(60) {
                break;
            }
        }
    }

    async fn stop(mut self) -> Result<(), Failure> {
        self.pace.send_replace(Pace::Stop);
        while let Some(task) = self.tasks.join_next().await {
            task.expect("no task panics")?;
        }
        Ok(())
    }
}

fn note_grant(log: &Mutex<Log>, session: usize) {
    let mut log = lock(log);
    let now = Instant::now();
    if let Some(given) = log.given.take() {
        log.gaps.push(micros(now - given));
        log.grants.push(session);
    }
}

fn lock(log: &Mutex<Log>) -> std::sync::MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn close(sessions: Vec<Session>) {
    for session in sessions {
        session.close().await;
    }
}

/// Two each second, and the one that any time may begin with.
fn two_a_second(time: Duration) -> f64 {
    ((2.0 + 1.0 / time.as_secs_f64()) * 100.0).ceil() / 100.0
}

pub(crate) fn with_option(url: &str, option: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{option}")
}

/// Raises our limit of open files if need be; the limit if it is too low.
fn allow_files(needed: u64) -> Result<(), u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|limit| limit >= needed) {
        return Ok(());
    }
    let most = limit.maximum.unwrap_or(needed).min(needed);
    limit.current = Some(most);
    let _ = setrlimit(Resource::Nofile, limit);
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < needed => Err(limit),
        _ => Ok(()),
    }
}
