//! The setting in which Jepsen found that etcd's locks lose updates: leases of
//! two seconds, five processes, and every five seconds one of them stands still
//! in the middle of its work for longer than its lease. Each reads a number,
//! works, and writes the number back with one more.
//!
//! No lock can help here by itself: whoever stands still between looking at its
//! guard and writing writes all the same when it goes on. The token helps. The
//! claim's key is the one below the lock's name that the token's revision made,
//! and the write is a transaction that asks whether it is still there.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use leasehold::Guard;
use rustix::process::{Pid, Signal, kill_process};

use super::{cluster, lock, session};
use crate::LONG;
use testbed::wait_for;

const PROCESSES: usize = 5;
const PAUSE_EVERY: Duration = Duration::from_secs(5);
const LOCK: &str = "ledger";
const NUMBER: &str = "balance";
/// What a process does between reading and writing.
const WORK: Duration = Duration::from_millis(100);

/// Set for the processes that a test starts: where the cluster is.
const PLACES: &str = "LEASEHOLD_JEPSEN_PLACES";
/// Set for those that write without looking at the token.
const BLIND: &str = "LEASEHOLD_JEPSEN_BLIND";
/// The file whose coming ends them.
const END: &str = "LEASEHOLD_JEPSEN_END";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    Guarded,
    Blind,
}

#[testbed::test]
fn no_update_is_lost_if_the_token_guards_the_write() {
    let outcome = race(Writing::Guarded, 3);
    assert!(outcome.refused > 0, "nobody stood still at a bad time");
    assert_eq!(outcome.number, outcome.acknowledged);
}

#[testbed::test]
fn updates_are_lost_if_nothing_guards_the_write() {
    let outcome = race(Writing::Blind, 2);
    let lost = outcome.acknowledged.saturating_sub(outcome.number);
    println!("{lost} of {} updates are lost", outcome.acknowledged);
    assert!(outcome.number > 0, "nothing is written");
    assert!(lost > 0, "the setting is too kind to show anything");
}

/// What came of it.
struct Outcome {
    /// Writes that the store took.
    acknowledged: u64,
    refused: u64,
    /// The number in the end.
    number: u64,
}

/// Works as one of the processes, if this is one.
pub(crate) fn play() -> bool {
    let Ok(places) = std::env::var(PLACES) else {
        return false;
    };
    let is_blind = std::env::var_os(BLIND).is_some();
    testbed::block_on(work(
        &places,
        if is_blind {
            Writing::Blind
        } else {
            Writing::Guarded
        },
    ));
    true
}

/// Lets the processes run through so many pauses.
fn race(write: Writing, pauses: u32) -> Outcome {
    let (folder, etcd) = cluster(3);
    etcd.ctl(&["put", NUMBER, "0"]);
    let places = etcd.url().replace("etcd://", "");
    let end = folder.path().join("end");
    let mut crew = Crew::start(write, &places, &end);
    let began = Instant::now();
    for pause in 0..pauses {
        crew.watch_until(began + PAUSE_EVERY * pause);
        let paused = crew.until("somebody who has read", |_, said| said == "read");
        crew.signal(paused, Signal::STOP);
        crew.until("another who gets on", |process, said| {
            process != paused && said == "wrote"
        });
        crew.signal(paused, Signal::CONT);
        crew.until("the one who stood still", |process, _| process == paused);
    }
    std::fs::write(&end, "").unwrap();
    crew.join();
    let number = etcd.ctl(&["get", NUMBER, "--print-value-only"]);
    Outcome {
        acknowledged: crew.wrote,
        refused: crew.refused,
        number: number.trim().parse().unwrap(),
    }
}

/// The processes, and what they have said.
struct Crew {
    children: Vec<Child>,
    lines: Receiver<(usize, String)>,
    wrote: u64,
    refused: u64,
}

impl Crew {
    fn start(write: Writing, places: &str, end: &Path) -> Self {
        let (sender, lines) = channel();
        let start = |process| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            if write == Writing::Blind {
                command.env(BLIND, "1");
            }
            let mut child = command
                .env(PLACES, places)
                .env(END, end)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let (output, sender) = (child.stdout.take().unwrap(), sender.clone());
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                let words = lines.filter(|line| line.starts_with(SAID));
                words.for_each(|line| {
                    drop(sender.send((process, line[SAID.len()..].to_owned())));
                });
            });
            child
        };
        Self {
            children: (0..PROCESSES).map(start).collect(),
            lines,
            wrote: 0,
            refused: 0,
        }
    }

    /// The next who says something, and what; `None` after the deadline.
    fn next(&mut self, deadline: Instant) -> Option<(usize, String)> {
        let left = deadline.saturating_duration_since(Instant::now());
        let (process, said) = self.lines.recv_timeout(left).ok()?;
        self.wrote += u64::from(said == "wrote");
        self.refused += u64::from(said == "refused");
        Some((process, said))
    }

    fn watch_until(&mut self, deadline: Instant) {
        while self.next(deadline).is_some() {}
    }

    fn until(&mut self, what: &str, is_it: impl Fn(usize, &str) -> bool) -> usize {
        let deadline = Instant::now() + LONG;
        loop {
            let Some((process, said)) = self.next(deadline) else {
                panic!("{what}: not within {LONG:?}");
            };
            if is_it(process, &said) {
                return process;
            }
        }
    }

    fn signal(&self, process: usize, signal: Signal) {
        let id = Pid::from_child(&self.children[process]);
        kill_process(id, signal).expect("it is ours");
    }

    /// Waits until all have ended, and hears their last words.
    fn join(&mut self) {
        self.watch_until(Instant::now() + LONG);
        for child in &mut self.children {
            let status = wait_for("its end", || child.try_wait().unwrap());
            assert!(status.success(), "{status}");
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const SAID: &str = "jepsen: ";

fn say(word: &str) {
    println!("{SAID}{word}");
}

/// What each process does, over and over.
async fn work(places: &str, write: Writing) {
    let end = PathBuf::from(std::env::var_os(END).unwrap());
    let session = session(&format!("etcd://{places}"), "ttl=2s").await;
    while !end.exists() {
        let guard = lock(&session, LOCK).await;
        let condition = match write {
            Writing::Guarded => still_ours(places, &guard),
            Writing::Blind => Some(String::new()),
        };
        if let Some(condition) = condition {
            let number: u64 = etcdctl(places, &["get", NUMBER, "--print-value-only"], "")
                .trim()
                .parse()
                .unwrap();
            say("read");
            std::thread::sleep(WORK);
            let transaction = format!("{condition}\nput {NUMBER} {}\n\n\n", number + 1);
            let answer = etcdctl(places, &["txn"], &transaction);
            say(match answer.starts_with("SUCCESS") {
                true => "wrote",
                false => "refused",
            });
        }
        // It may be lost.
        let _ = guard.release().await;
    }
    session.close().await;
}

/// The condition, in etcdctl's words, that the guard's claim is in the store.
fn still_ours(places: &str, guard: &Guard) -> Option<String> {
    let prefix = format!("{LOCK}/");
    let first = [
        "get",
        &prefix,
        "--prefix",
        "--sort-by=CREATE",
        "--limit=1",
        "--write-out=fields",
    ];
    let text = etcdctl(places, &first, "");
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(" : "));
        lines.find_map(|(field, value)| (field.trim_matches('"') == name).then_some(value))
    };
    let token = guard.token().get().to_string();
    let key = field("Key").filter(|_| field("CreateRevision") == Some(&token))?;
    Some(format!("create({key}) = \"{token}\"\n"))
}

fn etcdctl(places: &str, words: &[&str], input: &str) -> String {
    // By itself it gives up after five seconds, on a busy machine too.
    let mut child = Command::new("etcdctl")
        .args(["--dial-timeout=10s", "--command-timeout=30s"])
        .args(words)
        .env("ETCDCTL_API", "3")
        .env("ETCDCTL_ENDPOINTS", places)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "etcdctl {words:?}");
    String::from_utf8(output.stdout).unwrap()
}
