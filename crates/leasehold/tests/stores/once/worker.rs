//! A worker in a process of its own, with a clock of its own. Now and then it dies in the
//! middle of its work.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::once::{Begun, Missed, OnCrash, Run, Schedule};
use leasehold::{ErrorKind, connect};
use rustix::process::{Signal, getpid, kill_process};

pub(crate) const HOW: &str = "LEASEHOLD_TEST_HOW";
pub(crate) const LOCKS: &str = "LEASEHOLD_TEST_LOCKS";
pub(crate) const PLACE: &str = "LEASEHOLD_TEST_PLACE";
pub(crate) const NUMBER: &str = "LEASEHOLD_TEST_NUMBER";
pub(crate) const SEED: &str = "LEASEHOLD_TEST_SEED";

const PERIOD: Duration = Duration::from_millis(40);
/// Longer than the ttl.
const VERY_LONG: Duration = Duration::from_millis(2500);

/// What befalls the first run of a slot whose number leaves this when divided.
const HARM_EVERY: u64 = 50;
const LASTS_LONG: u64 = 3;
const DIES_BEFORE: u64 = 19;
const DIES_AFTER: u64 = 35;

/// What keeps workers from running a slot twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Retry,
    GiveUp,
    /// Nothing but their clocks.
    Bare,
}

impl How {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::GiveUp => "give-up",
            Self::Bare => "bare",
        }
    }
}

/// Whether this process is to be a worker.
pub(crate) fn is_one() -> bool {
    std::env::var_os(HOW).is_some()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// Asks for the slot of now until all are told to stop; the first of them once.
pub(crate) fn work() {
    let mut worker = Worker {
        place: variable(PLACE).into(),
        number: variable(NUMBER).parse().unwrap(),
        random: variable(SEED).parse::<u64>().unwrap() * 7919 + 17,
    };
    let schedule = Schedule::per(PERIOD).unwrap();
    let on_crash = match &*variable(HOW) {
        "bare" => return worker.bare(&schedule),
        "give-up" => OnCrash::GiveUp,
        _ => OnCrash::Retry,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let session = connect(&variable(LOCKS)).await.unwrap();
        let once = session.once("job", schedule);
        let once = once.missed(Missed::All).on_crash(on_crash);
        while !worker.place.join("stop").exists() {
            match once.begin().await {
                Ok(Begun::Started(run)) => worker.run(run).await,
                Ok(Begun::Old { .. }) => worker.leave("refused", "old"),
                Ok(Begun::TooFarAhead { .. }) => worker.leave("refused", "too far ahead"),
                Ok(Begun::Busy { .. }) => worker.leave("refused", "busy"),
                Ok(Begun::Elsewhere | Begun::Done { .. }) => {}
                Err(error) => must_pass(error.kind()),
            }
            if worker.number == 0 {
                break;
            }
            tokio::time::sleep(PERIOD / 8).await;
        }
        session.close().await;
    });
}

fn must_pass(kind: ErrorKind) {
    assert!(
        matches!(kind, ErrorKind::Unavailable | ErrorKind::Lost(_)),
        "{kind:?}"
    );
}

struct Worker {
    place: PathBuf,
    /// 0 is the first, which is alone and comes to no harm.
    number: u64,
    random: u64,
}

impl Worker {
    async fn run(&mut self, run: Run) {
        let (slot, attempt) = (run.slot(), run.attempt());
        self.leave("begun", &format!("{slot} {attempt} {}", self.number));
        let comes_to_harm = self.number > 0 && attempt == 1;
        let harm = comes_to_harm.then_some(slot % HARM_EVERY);
        if harm == Some(LASTS_LONG) {
            tokio::time::sleep(VERY_LONG).await;
            self.leave("long", &slot.to_string());
        } else {
            tokio::time::sleep(self.length()).await;
        }
        if harm == Some(DIES_BEFORE) {
            self.die(slot);
        }
        // Whoever has lost the lock has no effect any more.
        if run.guard().check().is_err() {
            return;
        }
        self.leave("effects", &slot.to_string());
        if harm == Some(DIES_AFTER) {
            self.leave("cut-off", &slot.to_string());
            self.die(slot);
        }
        if let Err(error) = run.complete().await {
            must_pass(error.kind());
            self.leave("cut-off", &slot.to_string());
        }
    }

    /// Most runs are short, some last for several periods.
    fn length(&mut self) -> Duration {
        match self.next() % 100 {
            _ if self.number == 0 => Duration::ZERO,
            0..10 => PERIOD * 3,
            part => PERIOD.mul_f64(f64::from(part) / 300.0),
        }
    }

    fn bare(&self, schedule: &Schedule) {
        let mut last = None;
        while !self.place.join("stop").exists() {
            let slot = schedule.slot_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
            if slot > last {
                self.leave("effects", &slot.unwrap().to_string());
                last = slot;
            }
            if self.number == 0 {
                return;
            }
            std::thread::sleep(PERIOD / 8);
        }
    }

    fn die(&self, slot: u64) {
        self.leave("deaths", &slot.to_string());
        kill_process(getpid(), Signal::KILL).unwrap();
    }

    /// A line that is there whatever becomes of us, whole.
    fn leave(&self, file: &str, line: &str) {
        let path = self.place.join(file);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn next(&mut self) -> u32 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.random >> 40).unwrap()
    }
}
