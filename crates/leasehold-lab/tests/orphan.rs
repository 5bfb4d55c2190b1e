//! A worker does not outlive the lab, whatever ends the lab.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Killed with its owner.
struct Lab(Child);

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Workers that stand still, killed with their owner.
struct Stopped(Vec<u32>);

impl Stopped {
    fn signal(&self, signal: Signal) {
        for &worker in self.0.iter().filter(|&&worker| is_worker(worker)) {
            let _ = kill(Pid::from_raw(worker.cast_signed()), signal);
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// The children of this process, by their numbers.
fn children(of: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace().flat_map(str::parse).collect()
}

fn is_worker(process: u32) -> bool {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0).nth(1) == Some(b"worker")
}

fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn workers_die_with_a_lab_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Command::new(env!("CARGO_BIN_EXE_leasehold-lab"))
        .args(["torture", "--store", "sqlite", "--faults", "pause"])
        .args(["--for", "1m", "--out"])
        .arg(folder.path())
        // Its own folder goes there too: nobody is left to remove it.
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut lab = Lab(lab.unwrap());
    let workers = || -> Vec<u32> {
        let children = children(lab.0.id()).into_iter();
        children.filter(|&child| is_worker(child)).collect()
    };
    // They have asked to die with it before they start their threads.
    let is_at_work = |&worker: &u32| {
        let threads = std::fs::read_dir(format!("/proc/{worker}/task"));
        threads.is_ok_and(|threads| threads.count() > 1)
    };
    let begun = until(|| workers().iter().filter(|it| is_at_work(it)).count() == 4);
    assert!(begun, "{:?}", workers());
    let workers = Stopped(workers());
    // One that stands still does not notice that nobody listens any more.
    workers.signal(Signal::SIGSTOP);
    lab.0.kill().unwrap();
    lab.0.wait().unwrap();
    let lives = |worker: &u32| {
        let is_there = Path::new(&format!("/proc/{worker}")).exists();
        is_there && is_worker(*worker)
    };
    let gone = until(|| !workers.0.iter().any(lives));
    assert!(gone, "workers are left: {:?}", workers.0);
}
