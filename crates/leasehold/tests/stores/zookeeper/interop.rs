//! One lock shared with Curator and with kazoo: neither side gets in while the
//! other is in, each gets in when the other has left, or was killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold::{Guard, Session};

use super::{LONG, Zookeeper, ensemble, inspector, queue_of, session};

const NAME: &str = "shared/ledger";

/// Somebody else's program, killed when it is dropped.
struct Foreign {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Foreign {
    fn start(program: &str, verb: &str, url: &str, rest: &[&str]) -> Self {
        let mut command = Command::new(program_of(program));
        command.args([verb, url, NAME]).args(rest);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let output = child.stdout.take().expect("it is piped");
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // Whoever does not listen any more does not want to know.
            lines.for_each(|line| drop(sender.send(line)));
        });
        Self { child, lines }
    }

    /// The next line that it prints.
    fn says(&self) -> String {
        let line = self.lines.recv_timeout(2 * LONG);
        line.expect("it says something")
    }

    fn has_spoken(&self) -> bool {
        self.lines.try_recv().is_ok()
    }

    /// Lets it leave: its input ends.
    fn let_go(&mut self) {
        drop(self.child.stdin.take());
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

fn program_of(name: &str) -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tools = scratch.parent().unwrap_or(scratch).join("tools");
    tools.join("clients").join(name)
}

fn lacks(program: &str) -> Option<&str> {
    (!program_of(program).is_file()).then_some(program)
}

/// A kind of lock, as both sides ask for it.
#[derive(Clone, Copy)]
struct Kind {
    program: &'static str,
    layout: &'static str,
    /// Behind the verb.
    theirs: &'static str,
    ours: Ours,
}

#[derive(Clone, Copy)]
enum Ours {
    Mutex,
    Read,
    Write,
}

impl Kind {
    fn holds(self, zookeeper: &Zookeeper) -> Foreign {
        let verb = format!("hold{}", self.theirs);
        Foreign::start(self.program, &verb, &zookeeper.url(), &["3000"])
    }

    async fn session(self, zookeeper: &Zookeeper) -> Session {
        session(&zookeeper.url(), &format!("ttl=3s&layout={}", self.layout)).await
    }

    async fn lock(self, session: &Session) -> Guard {
        let guard = match self.ours {
            Ours::Mutex => session.mutex(NAME).lock_within(2 * LONG).await,
            Ours::Read => session.rwlock(NAME).read_within(2 * LONG).await,
            Ours::Write => session.rwlock(NAME).write_within(2 * LONG).await,
        };
        guard.unwrap()
    }

    fn wait(self, session: &Session) -> tokio::task::JoinHandle<Guard> {
        let session = session.clone();
        tokio::spawn(async move { self.lock(&session).await })
    }
}

/// Everything that waiting, leaving and dying is, with one foreign program.
async fn shares(kind: Kind) {
    testbed::need(lacks(kind.program));
    let (_folder, zookeeper) = ensemble(1);
    let ours = kind.session(&zookeeper).await;
    let url = format!("{}?layout={}", zookeeper.url(), kind.layout);
    let inspector = inspector(&url).await;
    // We hold, it waits, we release.
    let guard = kind.lock(&ours).await;
    let mut foreign = kind.holds(&zookeeper);
    queue_of(&inspector, NAME, 2).await;
    assert!(!foreign.has_spoken(), "we hold it");
    let token = guard.token();
    guard.release().await.unwrap();
    foreign.says();
    // It holds, we wait, it releases.
    let waiting = kind.wait(&ours);
    queue_of(&inspector, NAME, 2).await;
    assert!(!waiting.is_finished());
    foreign.let_go();
    let next = waiting.await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    // It holds and is killed.
    let mut foreign = kind.holds(&zookeeper);
    foreign.says();
    let waiting = kind.wait(&ours);
    queue_of(&inspector, NAME, 2).await;
    foreign.kill();
    waiting.await.unwrap().release().await.unwrap();
    // We hold and are no more: a runtime that ends renews nothing and gives
    // nothing back, like a killed process.
    let url = zookeeper.url();
    let dying = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let guard = runtime.block_on(async {
            let options = format!("ttl=10s&layout={}", kind.layout);
            let session = session(&url, &options).await;
            kind.lock(&session).await
        });
        runtime.shutdown_background();
        guard
    });
    let guard = dying.await.unwrap();
    let foreign = kind.holds(&zookeeper);
    queue_of(&inspector, NAME, 2).await;
    assert!(!foreign.has_spoken(), "the session is not over");
    foreign.says();
    drop(guard);
}

#[testbed::test]
async fn curators_mutex_and_we_share_a_lock() {
    shares(Kind {
        program: "curator",
        layout: "curator",
        theirs: "",
        ours: Ours::Mutex,
    })
    .await;
}

#[testbed::test]
async fn curators_readers_and_our_writers_share_a_lock() {
    shares(Kind {
        program: "curator",
        layout: "curator",
        theirs: "-read",
        ours: Ours::Write,
    })
    .await;
}

#[testbed::test]
async fn curators_writers_and_our_readers_share_a_lock() {
    shares(Kind {
        program: "curator",
        layout: "curator",
        theirs: "-write",
        ours: Ours::Read,
    })
    .await;
}

#[testbed::test]
async fn kazoos_lock_and_we_share_a_lock() {
    shares(Kind {
        program: "kazoo",
        layout: "kazoo",
        theirs: "",
        ours: Ours::Mutex,
    })
    .await;
}

#[testbed::test]
async fn kazoos_readers_and_our_writers_share_a_lock() {
    shares(Kind {
        program: "kazoo",
        layout: "kazoo",
        theirs: "-read",
        ours: Ours::Write,
    })
    .await;
}

#[testbed::test]
async fn kazoos_writers_and_our_readers_share_a_lock() {
    shares(Kind {
        program: "kazoo",
        layout: "kazoo",
        theirs: "-write",
        ours: Ours::Read,
    })
    .await;
}

/// Readers of both sides are in at the same time.
async fn readers_share(program: &'static str) {
    testbed::need(lacks(program));
    let (_folder, zookeeper) = ensemble(1);
    let ours = session(&zookeeper.url(), &format!("ttl=10s&layout={program}")).await;
    let guard = ours.rwlock(NAME).read_within(LONG).await.unwrap();
    let foreign = Foreign::start(program, "hold-read", &zookeeper.url(), &["10000"]);
    assert_eq!(foreign.says(), "held");
    let another = ours.rwlock(NAME).read_within(LONG).await.unwrap();
    guard.check().unwrap();
    another.release().await.unwrap();
    guard.release().await.unwrap();
}

#[testbed::test]
async fn readers_of_curator_and_ours_are_in_together() {
    readers_share("curator").await;
}

#[testbed::test]
async fn readers_of_kazoo_and_ours_are_in_together() {
    readers_share("kazoo").await;
}

async fn counts(program: &'static str, kind: &str) {
    const ROUNDS: u32 = 30;
    testbed::need(lacks(program));
    let (folder, zookeeper) = ensemble(3);
    let file = folder.path().join("counter");
    std::fs::write(&file, "0").unwrap();
    let (text, rounds) = (file.to_string_lossy().into_owned(), ROUNDS.to_string());
    let verb = format!("count{kind}");
    let foreign: Vec<_> = (0..2)
        .map(|_| Foreign::start(program, &verb, &zookeeper.url(), &[&rounds, &text]))
        .collect();
    let is_writer = kind == "-write";
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let options = format!("ttl=10s&layout={program}");
        let (session, file) = (session(&zookeeper.url(), &options).await, file.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = match is_writer {
                    true => session.rwlock(NAME).write_within(2 * LONG).await.unwrap(),
                    false => session.mutex(NAME).lock_within(2 * LONG).await.unwrap(),
                };
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
    let counted = std::fs::read_to_string(&file).unwrap();
    assert_eq!(counted, (4 * ROUNDS).to_string());
}

#[testbed::test]
async fn a_counter_under_a_lock_counts_curator_too() {
    counts("curator", "").await;
}

#[testbed::test]
async fn a_counter_under_a_write_lock_counts_curator_too() {
    counts("curator", "-write").await;
}

#[testbed::test]
async fn a_counter_under_a_lock_counts_kazoo_too() {
    counts("kazoo", "").await;
}

#[testbed::test]
async fn a_counter_under_a_write_lock_counts_kazoo_too() {
    counts("kazoo", "-write").await;
}
