//! Nothing that the lab started outlives it, and its history does, whatever ends
//! the lab.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_lab::ground::Kind;
use leasehold_lab::history::{Event, History};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Killed with its owner.
struct Lab(Child);

impl Lab {
    /// A run of a minute, with all that it writes in this folder.
    fn start(folder: &Path, store: &str, faults: &str) -> Self {
        std::fs::create_dir(folder.join("temporary")).expect("there is room for a folder");
        let lab = Command::new(env!("CARGO_BIN_EXE_leasehold-lab"))
            .args(["torture", "--store", store, "--faults", faults])
            .args(["--seed", "1", "--for", "1m", "--out"])
            .arg(folder.join("out"))
            .env("TMPDIR", folder.join("temporary"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(lab.expect("the lab starts"))
    }

    /// Waits until four workers are at work, and gives all processes.
    fn wait_until_at_work(&self) -> Vec<u32> {
        // They have asked to die with the lab before they start their threads.
        let is_at_work = |&process: &u32| {
            let threads = std::fs::read_dir(format!("/proc/{process}/task"));
            is_worker(process) && threads.is_ok_and(|threads| threads.count() > 1)
        };
        let begun = until(|| {
            let processes = descendants(self.0.id());
            processes.iter().filter(|it| is_at_work(it)).count() == 4
        });
        let processes = descendants(self.0.id());
        assert!(begun, "{processes:?}");
        processes
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processes that stand still, killed with their owner.
struct Stopped(Vec<u32>);

impl Stopped {
    fn signal(&self, signal: Signal) {
        for &process in self.0.iter().filter(|&&process| is_worker(process)) {
            let _ = kill(Pid::from_raw(process.cast_signed()), signal);
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// The children of this process, and theirs, by their numbers.
fn descendants(of: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let list = list.unwrap_or_default();
    let children: Vec<u32> = list.split_whitespace().flat_map(str::parse).collect();
    let below = children.iter().flat_map(|&child| descendants(child));
    below.chain(children.iter().copied()).collect()
}

/// The words that it was called with.
fn words(process: u32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn is_worker(process: u32) -> bool {
    words(process).get(1).is_some_and(|word| word == "worker")
}

/// Neither gone nor dead and not yet fetched by its parent.
fn lives(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// No process of it lives, no disk of it is mounted, no folder of it is there.
fn is_gone(processes: &[u32], folder: &Path) {
    let left = || {
        let living = processes.iter().copied().filter(|&process| lives(process));
        living.map(words).collect::<Vec<_>>()
    };
    assert!(until(|| left().is_empty()), "{:?} are left", left());
    let temporary = folder.join("temporary");
    let files = || std::fs::read_dir(&temporary).map_or(0, Iterator::count);
    assert!(until(|| files() == 0), "something is in {temporary:?}");
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("there are mounts");
    let here = temporary.to_string_lossy().into_owned();
    assert!(!mounts.contains(&here), "{mounts}");
}

#[testbed::test]
fn workers_die_with_a_lab_that_is_killed_and_its_history_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut lab = Lab::start(folder.path(), "sqlite", "pause");
    let processes = lab.wait_until_at_work();
    let path = folder.path().join("out/torture-sqlite-1.jsonl");
    let history = || {
        let text = std::fs::read(&path).unwrap_or_default();
        // The last line may be on its way.
        let end = text.iter().rposition(|&byte| byte == b'\n');
        History::read(&text[..end.map_or(0, |end| end + 1)]).unwrap()
    };
    let grants = || {
        let lines = history().lines;
        let grants = lines.iter();
        let is_grant = |event: &Event| matches!(event, Event::Granted { .. });
        grants.filter(|line| is_grant(&line.event)).count()
    };
    assert!(until(|| grants() > 2), "{:?}", history().lines);
    let workers = Stopped(processes.clone());
    // One that stands still does not notice that nobody listens any more.
    workers.signal(Signal::SIGSTOP);
    let before = grants();
    lab.0.kill().unwrap();
    lab.0.wait().unwrap();
    is_gone(&processes, folder.path());
    assert!(grants() >= before, "what was written is there");
}

#[testbed::test]
fn another_program_and_all_that_it_started_end_with_their_keeper() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let keeper = Command::new(env!("CARGO_BIN_EXE_leasehold-lab"))
        .args(["keep", "--program", "/bin/sh"])
        .arg(std::process::id().to_string())
        .args(["-c", "sleep 600 & exec sleep 600"])
        .env("TMPDIR", &temporary)
        .spawn();
    let mut keeper = Lab(keeper.unwrap());
    let is_asleep = |process: &u32| words(*process)[0] == "sleep";
    let asleep = || {
        let processes = descendants(keeper.0.id()).into_iter();
        processes.filter(is_asleep).collect::<Vec<_>>()
    };
    assert!(until(|| asleep().len() == 2), "{:?}", asleep());
    let processes = asleep();
    kill(Pid::from_raw(keeper.0.id().cast_signed()), Signal::SIGTERM).unwrap();
    keeper.0.wait().unwrap();
    is_gone(&processes, folder.path());
}

#[testbed::test]
fn a_picture_is_written_as_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Command::new(env!("CARGO_BIN_EXE_leasehold-lab"))
        .args(["torture", "--store", "sqlite", "--faults", "kill", "--svg"])
        .args(["--seed", "1", "--for", "100ms", "--ttl", "500", "--out"])
        .arg(folder.path())
        .output();
    let lab = lab.unwrap();
    assert!(lab.status.success(), "{lab:?}");
    let picture = std::fs::read_to_string(folder.path().join("torture-sqlite-1.svg"));
    let picture = picture.unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for lane in ["w1", "w2", "w3", "w4", "ledger"] {
        assert!(picture.contains(&format!(">{lane}</text>")), "{lane}");
    }
}

#[testbed::test]
fn servers_and_disks_end_with_a_lab_that_is_told_to_end() {
    let kind = Kind::find("redis").unwrap();
    testbed::need((kind.lacks)());
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let folder = tempfile::tempdir().unwrap();
        let mut lab = Lab::start(folder.path(), "redis", "disk-full");
        let processes = lab.wait_until_at_work();
        let is_server = |&process: &u32| words(process)[0].starts_with("redis-server");
        assert!(processes.iter().any(is_server), "{processes:?}");
        kill(Pid::from_raw(lab.0.id().cast_signed()), signal).unwrap();
        lab.0.wait().unwrap();
        is_gone(&processes, folder.path());
    }
}
