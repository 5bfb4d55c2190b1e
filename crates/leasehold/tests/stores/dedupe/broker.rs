//! A broker in memory: every message is delivered one to five times, and once more
//! whenever its consumer dies or could not do it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use leasehold::dedupe::{DoneDatabase, DoneTable};
use rustix::process::{Pid, Signal, kill_process};

use crate::dedupe::consumer::{HOW, How, KIND, LOCKS, PLACE, SEED, STOPS};
use crate::dedupe::runtime;
use crate::fence::place::{Place, connect};

const CONSUMERS: u64 = 8;
/// Longer than a ttl: whoever says nothing for so long has stopped itself, and is
/// told to go on.
const SILENCE: Duration = Duration::from_secs(2);

/// Where the locks are, and the database of the effects.
pub(crate) struct Case {
    locks: String,
    place: String,
    messages: u64,
}

/// What happened on the way.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    died: AtomicU64,
    stopped: AtomicU64,
    duplicates: AtomicU64,
    refused: AtomicU64,
    again: AtomicU64,
    cut_off: AtomicU64,
    /// How often an attempt at a message may have been cut off: its consumer died,
    /// was stopped, or could not say that it is done.
    cuts: Mutex<Counts>,
}

impl Figures {
    fn cut(&self, message: u64) {
        let mut cuts = self.cuts.lock().unwrap();
        *cuts.entry(message.cast_signed()).or_default() += 1;
    }

    /// The messages that were done or begun more often than once and once more for
    /// each attempt that was cut off.
    pub(crate) fn too_often(&self, counts: &Counts) -> Counts {
        let cuts = self.cuts.lock().unwrap();
        let most = |message: &i64| 1 + cuts.get(message).copied().unwrap_or(0);
        let counts = counts.iter().map(|(message, count)| (*message, *count));
        counts
            .filter(|(message, count)| *count > most(message))
            .collect()
    }
}

/// How many messages there are unless it is asked for more, which take longer.
fn messages() -> u64 {
    let asked = std::env::var("LEASEHOLD_TEST_MESSAGES").ok();
    asked.map_or(60, |messages| messages.parse().unwrap())
}

pub(crate) type Counts = BTreeMap<i64, usize>;

impl Case {
    pub(crate) fn new(locks: String, place: String) -> Self {
        Self::of(messages(), locks, place)
    }

    /// With so many messages.
    pub(crate) fn of(messages: u64, locks: String, place: String) -> Self {
        Self {
            locks,
            place,
            messages,
        }
    }

    pub(crate) fn every_message_has_exactly_one_effect<DB: Place + DoneDatabase>(
        &self,
        kind: &'static str,
    ) {
        let (effects, ..) = self.effects::<DB>(kind, How::Marked);
        let twice: Vec<_> = effects.iter().filter(|(_, count)| **count != 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        assert_eq!(effects.len() as u64, self.messages);
    }

    pub(crate) fn every_message_has_at_least_one_effect<DB: Place + DoneDatabase>(
        &self,
        kind: &'static str,
    ) {
        let (effects, begun, figures) = self.effects::<DB>(kind, How::Noted);
        assert_eq!(effects.len() as u64, self.messages);
        // Nothing but an attempt that was cut off leads to another one.
        for counts in [&begun, &effects] {
            let too_often = figures.too_often(counts);
            assert!(too_often.is_empty(), "{too_often:?}: {figures:?}");
        }
        let often = begun.values().filter(|count| **count > 1).count();
        println!(
            "{often} of {} messages were begun more than once",
            begun.len()
        );
    }

    /// Has everything delivered; what each message did, and how often it was begun.
    pub(crate) fn effects<DB: Place + DoneDatabase>(
        &self,
        kind: &'static str,
        how: How,
    ) -> (Counts, Counts, Figures) {
        let runtime = runtime();
        let pool = runtime.block_on(async {
            let pool = connect::<DB>(&self.place).await;
            let mut connection = pool.acquire().await.unwrap();
            for table in ["effect", "begun"] {
                let make = format!("create table {table} (message bigint not null)");
                DB::execute(&mut connection, &make).await.unwrap();
            }
            DoneTable::create::<DB>(&mut connection).await.unwrap();
            drop(connection);
            pool
        });
        let begun = Instant::now();
        let figures = self.deliver(kind, how);
        let time = begun.elapsed();
        let (deliveries, messages) = (deliveries(self.messages).len(), self.messages);
        println!(
            "{kind}, {}: {messages} messages, {deliveries} deliveries, {time:.1?}",
            how.name()
        );
        println!("{figures:?}");
        runtime.block_on(async {
            let mut connection = pool.acquire().await.unwrap();
            let mut counts = Vec::new();
            for table in ["effect", "begun"] {
                let query = format!("select message from {table}");
                let found = DB::numbers(&mut connection, &query).await.unwrap();
                let mut count = Counts::new();
                for message in found {
                    *count.entry(message).or_default() += 1;
                }
                counts.push(count);
            }
            let begun = counts.pop().unwrap();
            (counts.pop().unwrap(), begun, figures)
        })
    }

    fn deliver(&self, kind: &'static str, how: How) -> Figures {
        let (queue, open) = (Mutex::new(deliveries(self.messages)), AtomicU64::new(0));
        open.store(queue.lock().unwrap().len() as u64, Ordering::SeqCst);
        let (figures, seeds) = (Figures::default(), AtomicU64::new(1));
        let deadline = Instant::now() + Duration::from_secs(120 + self.messages);
        std::thread::scope(|scope| {
            for _ in 0..CONSUMERS {
                scope.spawn(|| {
                    let mut consumer = None;
                    while open.load(Ordering::SeqCst) > 0 {
                        assert!(Instant::now() < deadline, "not all is done: {figures:?}");
                        let Some(message) = queue.lock().unwrap().pop_front() else {
                            std::thread::sleep(Duration::from_millis(5));
                            continue;
                        };
                        let one = consumer.get_or_insert_with(|| {
                            let seed = seeds.fetch_add(1, Ordering::SeqCst);
                            Consumer::start(self, kind, how, seed)
                        });
                        let counter = match one.give(message, &figures).as_deref() {
                            Some("done") => None,
                            Some("duplicate") => Some(&figures.duplicates),
                            Some("refused") => Some(&figures.refused),
                            Some(answer @ ("again" | "cut off")) => {
                                let counter = match answer {
                                    "again" => &figures.again,
                                    _ => {
                                        figures.cut(message);
                                        &figures.cut_off
                                    }
                                };
                                counter.fetch_add(1, Ordering::Relaxed);
                                std::thread::sleep(Duration::from_millis(20));
                                queue.lock().unwrap().push_back(message);
                                continue;
                            }
                            Some(other) => panic!("{other}"),
                            None => {
                                figures.died.fetch_add(1, Ordering::Relaxed);
                                figures.cut(message);
                                consumer = None;
                                queue.lock().unwrap().push_back(message);
                                continue;
                            }
                        };
                        counter.map(|counter| counter.fetch_add(1, Ordering::Relaxed));
                        open.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        figures
    }
}

/// Every message one to five times, in no order.
fn deliveries(messages: u64) -> VecDeque<u64> {
    let mut random = 4711_u64;
    let mut next = move || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        random >> 33
    };
    let mut all = Vec::new();
    for message in 0..messages {
        all.extend(std::iter::repeat_n(message, 1 + (next() % 5) as usize));
    }
    for at in (1..all.len()).rev() {
        all.swap(at, next() as usize % (at + 1));
    }
    // The first few come at the same time.
    all.extend(std::iter::repeat_n(0, 3));
    all.into()
}

/// A consumer that is killed with its test.
struct Consumer {
    process: Child,
    answers: Receiver<String>,
}

impl Consumer {
    fn start(case: &Case, kind: &str, how: How, seed: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env(KIND, kind)
            .env(PLACE, &case.place)
            .env(LOCKS, &case.locks)
            .env(HOW, how.name())
            // Who stops may have the database's file, and then all wait.
            .env(STOPS, (case.messages / 3).max(150).to_string())
            .env(SEED, (seed * 7_919_993).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (said, answers) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, answers }
    }

    /// The answer; none if it died. One that broke by a fault of its own has failed
    /// the test.
    fn give(&mut self, message: u64, figures: &Figures) -> Option<String> {
        // It may be dead, and then there is no answer either.
        let _ = writeln!(self.process.stdin.as_mut().unwrap(), "{message}");
        for _ in 0..60 {
            match self.answers.recv_timeout(SILENCE) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.process.wait().unwrap();
                    assert_eq!(status.code(), None, "a consumer ended with {status}");
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.is_stopped() {
                        figures.stopped.fetch_add(1, Ordering::Relaxed);
                        figures.cut(message);
                        self.signal(Signal::CONT);
                    }
                }
            }
        }
        panic!("a consumer says nothing about {message}");
    }

    fn is_stopped(&self) -> bool {
        let stat = format!("/proc/{}/stat", self.process.id());
        let stat = std::fs::read_to_string(stat).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
        state == Some(b'T')
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
