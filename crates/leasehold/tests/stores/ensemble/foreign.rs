//! Locks shared with other people's programs: neither side gets in while the other is in,
//! each gets in when the other has left, or was killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use leasehold::{Guard, Session};
use rustix::process::{Pid, Signal, kill_process};

use crate::steps::{LONG, answered, queue_of, session};
use testbed::tools;

/// Longer than anything waits that is not meant to end.
const KEPT: Duration = Duration::from_secs(30);
/// A ttl that is meant to end.
const SHORT: Duration = Duration::from_secs(3);

/// A program with another library, killed when it is dropped.
pub(crate) struct Foreign {
    child: Child,
    lines: Receiver<String>,
}

impl Foreign {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let output = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // The test may have stopped reading.
            lines.for_each(|line| drop(sender.send(line)));
        });
        Self { child, lines }
    }

    /// The next line that it prints.
    pub(crate) fn says(&self) -> String {
        let line = self.lines.recv_timeout(2 * LONG);
        line.expect("it says something")
    }

    fn has_spoken(&self) -> bool {
        self.lines.try_recv().is_ok()
    }

    /// Lets it leave: its input ends.
    pub(crate) fn let_go(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn interrupt(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it is ours");
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A client that `cargo xtask tools` has built.
pub(crate) fn client(name: &str) -> PathBuf {
    tools().join("clients").join(name)
}

pub(crate) fn lacks(client_name: &str) -> Option<String> {
    let is_there = client(client_name).is_file();
    (!is_there).then(|| format!("{client_name} (cargo xtask tools)"))
}

/// What we ask for where they lock.
#[derive(Clone, Copy)]
pub(crate) enum Ours {
    Mutex,
    Read,
    Write,
}

impl Ours {
    pub(crate) async fn lock(self, session: &Session, name: &str) -> Guard {
        let guard = match self {
            Self::Mutex => session.mutex(name).lock_within(2 * LONG).await,
            Self::Read => session.rwlock(name).read_within(2 * LONG).await,
            Self::Write => session.rwlock(name).write_within(2 * LONG).await,
        };
        guard.unwrap()
    }

    async fn try_lock(self, session: &Session, name: &str) -> Option<Guard> {
        let (mutex, both) = (session.mutex(name), session.rwlock(name));
        match self {
            Self::Mutex => answered(|| mutex.try_lock()).await,
            Self::Read => answered(|| both.try_read()).await,
            Self::Write => answered(|| both.try_write()).await,
        }
    }
}

/// Everything that waiting, leaving and dying is on the lock `name`, with a foreign program
/// that holds it with a ttl, and leaves.
pub(crate) async fn shares(
    (url, options, name): (&str, &'static str, &'static str),
    ours: Ours,
    hold: impl Fn(Duration) -> Foreign,
    leave: impl Fn(&mut Foreign),
) {
    let with_ttl = |ttl: Duration| format!("ttl={}s{options}", ttl.as_secs());
    let one = session(url, &with_ttl(KEPT)).await;
    let inspector = one.inspector();
    let wait = || {
        let one = one.clone();
        tokio::spawn(async move { ours.lock(&one, name).await })
    };
    // We hold, it waits, we release.
    let guard = ours.lock(&one, name).await;
    let mut foreign = hold(KEPT);
    queue_of(&inspector, name, 2).await;
    assert!(!foreign.has_spoken(), "we hold it");
    let token = guard.token();
    guard.release().await.unwrap();
    foreign.says();
    // It holds, we wait, it releases.
    assert!(ours.try_lock(&one, name).await.is_none());
    let waiting = wait();
    queue_of(&inspector, name, 2).await;
    assert!(!waiting.is_finished());
    leave(&mut foreign);
    let next = waiting.await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    // It holds and is killed.
    let mut foreign = hold(SHORT);
    foreign.says();
    let waiting = wait();
    foreign.kill();
    waiting.await.unwrap().release().await.unwrap();
    // We hold and are no more: a runtime that ends renews nothing and gives nothing back,
    // like a killed process.
    let (url, options, then) = (url.to_owned(), with_ttl(SHORT), Instant::now());
    let dying = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let guard = runtime.block_on(async {
            let session = session(&url, &options).await;
            ours.lock(&session, name).await
        });
        runtime.shutdown_background();
        guard
    });
    let guard = dying.await.unwrap();
    hold(SHORT).says();
    assert!(then.elapsed() > SHORT, "the lease was not over");
    drop(guard);
}

/// Each of two programs, which are started so, and of two sessions of ours counts so often
/// in the file, under the lock.
pub(crate) async fn counts(
    (url, options, name): (&str, &str, &'static str),
    ours: Ours,
    file: &Path,
    start: impl Fn(&[&str]) -> Foreign,
) {
    const ROUNDS: u32 = 40;
    std::fs::write(file, "0").unwrap();
    let (rounds, path) = (ROUNDS.to_string(), file.to_string_lossy());
    let foreign = [(); 2].map(|()| start(&[&rounds, &path]));
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let session = session(url, &format!("ttl=30s{options}")).await;
        let file = file.to_owned();
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = ours.lock(&session, name).await;
                let number: u32 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                std::fs::write(&file, (number + 1).to_string()).unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for program in &foreign {
        assert_eq!(program.says(), format!("done {ROUNDS}"));
    }
    let counted = std::fs::read_to_string(file).unwrap();
    assert_eq!(counted, (4 * ROUNDS).to_string());
}
