//! Once per period, in earnest: ten processes, each with a clock of its own, ask for the
//! slot of now again and again; they die in the middle of it, and some runs last longer
//! than a period or than the ttl. What counts is what they leave in files.

mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use worker::{HOW, How, LOCKS, NUMBER, PLACE, SEED};

/// How far the workers' clocks are off. A period is 40 ms: some are within one, some
/// beyond it, two far off.
const CLOCKS: [&str; 10] = [
    "+0s", "+0.01s", "-0.01s", "+0.03s", "-0.03s", "+0.07s", "-0.07s", "+0.5s", "+1h", "-1h",
];

/// Works as one of the processes, if this is one.
pub(crate) fn play() -> bool {
    let is_one = worker::is_one();
    if is_one {
        worker::work();
    }
    is_one
}

#[testbed::test]
fn every_slot_is_run_exactly_once() {
    let place = Place::run(How::Retry, slots());
    let (slots, effects) = (place.slots(), place.counts("effects"));
    // Whoever is cut off after its effect has not said that it is done.
    let cut_off = place.counts("cut-off");
    let most = |slot: &u64| 1 + cut_off.get(slot).copied().unwrap_or(0);
    let is_wrong = |slot: &&u64| {
        let count = effects.get(slot).copied().unwrap_or(0);
        !(1..=most(slot)).contains(&count)
    };
    let wrong: Vec<_> = slots.iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}: {effects:?} {cut_off:?}");
    let repeated = place.repeated();
    assert!(repeated.is_empty(), "attempts began twice: {repeated:?}");
    place.tell();
}

#[testbed::test]
fn no_slot_is_run_twice_if_they_give_up() {
    let place = Place::run(How::GiveUp, slots());
    let (slots, begun) = (place.slots(), place.counts("begun"));
    let wrong: Vec<_> = slots.iter().filter(|slot| begun[slot] != 1).collect();
    assert!(wrong.is_empty(), "{wrong:?}: {begun:?}");
    assert!(place.counts("effects").values().all(|count| *count == 1));
    place.tell();
}

#[testbed::test]
fn without_any_of_this_it_is_seen() {
    let place = Place::run(How::Bare, 25);
    let effects = place.counts("effects");
    assert!(effects.values().any(|count| *count > 1), "{effects:?}");
}

/// How many slots there are; more take longer.
fn slots() -> usize {
    let asked = std::env::var("LEASEHOLD_TEST_SLOTS").ok();
    asked.map_or(100, |slots| slots.parse().unwrap())
}

/// Where the workers leave what they did.
struct Place {
    folder: tempfile::TempDir,
    time: Duration,
}

impl Place {
    /// Has the workers run until so many slots have had their effect.
    fn run(how: How, slots: usize) -> Self {
        testbed::need(faketime().is_none().then_some("libfaketime"));
        let folder = tempfile::tempdir().unwrap();
        let server = crate::pools::REDIS.take();
        let mut place = Self {
            folder,
            time: Duration::ZERO,
        };
        let locks = format!("{}?ttl=2s", server.url());
        let workers = Workers {
            how,
            locks: &locks,
            place: place.folder.path(),
            library: faketime().unwrap(),
        };
        // One with the right time comes first, else a late one would begin the count.
        let first = workers.start("+0s", 0).0.wait().unwrap();
        assert!(first.success(), "{first}");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let (workers, place) = (&workers, &place);
            for (number, clock) in (1..).zip(CLOCKS) {
                scope.spawn(move || workers.keep(clock, number));
            }
            let deadline = Instant::now() + Duration::from_secs(60 + slots as u64);
            while place.counts("effects").len() < slots {
                if Instant::now() > deadline {
                    place.stop();
                    panic!("not all is done: {:?}", place.counts("effects").len());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            place.stop();
        });
        place.time = begun.elapsed();
        place
    }

    fn stop(&self) {
        std::fs::write(self.folder.path().join("stop"), "").unwrap();
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(str::to_owned).collect()
    }

    /// How often each slot, the first word of a line, is in the file.
    fn counts(&self, file: &str) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        for line in self.lines(file) {
            let slot = line.split(' ').next().unwrap().parse().unwrap();
            *counts.entry(slot).or_default() += 1;
        }
        counts
    }

    /// Every slot from the first to the last but one; the last may have been cut off
    /// when all were told to stop.
    fn slots(&self) -> Vec<u64> {
        let begun = self.counts("begun");
        let (first, last) = (begun.keys().next(), begun.keys().next_back());
        let slots: Vec<_> = (*first.unwrap()..*last.unwrap()).collect();
        let missing: Vec<_> = slots
            .iter()
            .filter(|slot| !begun.contains_key(slot))
            .collect();
        assert!(missing.is_empty(), "never run: {missing:?}");
        let order: Vec<u64> = self.words(0);
        assert!(order.is_sorted(), "{order:?}");
        slots
    }

    /// A word of each line of what was begun.
    fn words(&self, at: usize) -> Vec<u64> {
        let word = |line: &String| line.split(' ').nth(at).unwrap().parse().unwrap();
        self.lines("begun").iter().map(word).collect()
    }

    /// Slots and attempts that are there more than once.
    fn repeated(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let lines = self.lines("begun").into_iter();
        let attempts = lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned());
        attempts
            .filter(|attempt| !seen.insert(attempt.clone()))
            .collect()
    }

    /// What happened; it was something.
    fn tell(&self) {
        let workers: BTreeSet<_> = self.words(2).into_iter().collect();
        let refused = self.lines("refused");
        let count = |what| refused.iter().filter(|line| *line == what).count();
        let (old, ahead) = (count("old"), count("too far ahead"));
        println!(
            "{} slots in {:.1?} by {} workers, {} attempts, {} deaths, {} cut off after the \
             effect, {} longer than the ttl; asked {old} times for an old slot, {ahead} times for one too far ahead, \
             {} times while an earlier one ran",
            self.slots().len(),
            self.time,
            workers.len(),
            self.lines("begun").len(),
            self.lines("deaths").len(),
            self.lines("cut-off").len(),
            self.lines("long").len(),
            count("busy"),
        );
        assert!(workers.len() > 2, "{workers:?}");
        assert!(old > 0 && ahead > 0, "{old} {ahead}");
        for harm in ["deaths", "cut-off", "long"] {
            assert!(!self.lines(harm).is_empty(), "{harm}: none");
        }
        assert!(count("busy") > 0, "nobody asked while an earlier slot ran");
    }
}

struct Workers<'a> {
    how: How,
    locks: &'a str,
    place: &'a Path,
    library: PathBuf,
}

/// A worker that is killed with its test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Workers<'_> {
    fn start(&self, clock: &str, seed: u64) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env(HOW, self.how.name())
            .env(LOCKS, self.locks)
            .env(PLACE, self.place)
            .env(NUMBER, (seed % 100).to_string())
            .env(SEED, seed.to_string())
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME", clock)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Worker(command.spawn().unwrap())
    }

    /// Starts another one whenever it dies, until it ends because all do.
    fn keep(&self, clock: &str, number: u64) {
        for life in 0.. {
            let status = self.start(clock, life * 100 + number).0.wait().unwrap();
            if status.success() {
                return;
            }
            assert_eq!(status.code(), None, "a worker ended with {status}");
        }
    }
}

/// The library that shows a process another time, from the Debian package
/// `libfaketime`.
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .find(|library| library.exists())
}
