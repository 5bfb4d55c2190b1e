//! One lock shared with `etcdctl lock` and with Go's client: neither side gets
//! in while the other is in, each gets in when the other has left, or was
//! killed.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use leasehold::{Inspector, Session};

use super::{Etcd, LONG, cluster, inspector, lock, queue_of, session, wait_for_lock};

const NAME: &str = "shared/ledger";

/// Somebody else's program, killed when it is dropped.
struct Foreign {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Foreign {
    fn start(mut command: Command) -> Self {
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

    /// `etcdctl lock`: prints the key when it has the lock, and then holds it.
    fn etcdctl(etcd: &Etcd) -> Self {
        let mut command = etcd.etcdctl();
        command.args(["lock", NAME, "--ttl=2"]);
        Self::start(command)
    }

    /// The program in `interop/go-etcd`.
    fn go(etcd: &Etcd, verb: &str, rest: &[&str]) -> Self {
        let mut command = Command::new(go_program());
        command.args([verb, &etcd.url(), NAME]).args(rest);
        Self::start(command)
    }

    /// The next line that it prints.
    fn says(&self) -> String {
        self.lines.recv_timeout(LONG).expect("it says something")
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

    fn interrupt(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it is ours");
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.kill();
    }
}

fn go_program() -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tools = scratch.parent().unwrap_or(scratch).join("tools");
    tools.join("clients/etcd-go")
}

fn lacks_go() -> Option<&'static str> {
    (!go_program().is_file()).then_some("etcd-go (cargo xtask tools)")
}

/// Everything that waiting and leaving is, with one foreign program.
async fn shares(etcd: &Etcd, hold: impl Fn() -> Foreign, leave: impl Fn(&mut Foreign)) {
    let (ours, inspector) = (
        session(&etcd.url(), "ttl=2s").await,
        inspector(&etcd.url()).await,
    );
    // We hold, it waits, we release.
    let guard = lock(&ours, NAME).await;
    let mut foreign = hold();
    queue_of(&inspector, NAME, 2).await;
    assert!(!foreign.has_spoken(), "we hold it");
    let token = guard.token();
    guard.release().await.unwrap();
    foreign.says();
    // It holds, we wait, it releases.
    assert!(ours.mutex(NAME).try_lock().await.unwrap().is_none());
    let waiting = wait_for_lock(&ours, NAME);
    queue_of(&inspector, NAME, 2).await;
    assert!(!waiting.is_finished());
    leave(&mut foreign);
    let next = waiting.await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    killed_holders(etcd, &ours, &inspector, hold).await;
}

async fn killed_holders(
    etcd: &Etcd,
    ours: &Session,
    inspector: &Inspector,
    hold: impl Fn() -> Foreign,
) {
    // It holds and is killed.
    let mut foreign = hold();
    foreign.says();
    let waiting = wait_for_lock(ours, NAME);
    queue_of(inspector, NAME, 2).await;
    foreign.kill();
    waiting.await.unwrap().release().await.unwrap();
    // We hold and are no more: a runtime that ends renews nothing and gives
    // nothing back, like a killed process.
    let url = etcd.url();
    let dying = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let guard = runtime.block_on(async {
            let session = session(&url, "ttl=2s").await;
            lock(&session, NAME).await
        });
        runtime.shutdown_background();
        guard
    });
    let guard = dying.await.unwrap();
    let foreign = hold();
    queue_of(inspector, NAME, 2).await;
    assert!(!foreign.has_spoken(), "the lease is not over");
    foreign.says();
    drop(guard);
}

#[testbed::test]
async fn etcdctl_and_we_share_a_lock() {
    let (_folder, etcd) = cluster(1);
    shares(
        &etcd,
        || Foreign::etcdctl(&etcd),
        |etcdctl| etcdctl.interrupt(),
    )
    .await;
}

#[testbed::test]
async fn gos_client_and_we_share_a_lock() {
    testbed::need(lacks_go());
    let (_folder, etcd) = cluster(1);
    let hold = || Foreign::go(&etcd, "hold", &["2000"]);
    shares(&etcd, hold, Foreign::let_go).await;
}

#[testbed::test]
async fn a_counter_under_the_lock_counts_everybody() {
    const ROUNDS: u32 = 40;
    testbed::need(lacks_go());
    let (folder, etcd) = cluster(3);
    let file = folder.path().join("counter");
    std::fs::write(&file, "0").unwrap();
    let (text, rounds) = (file.to_string_lossy().into_owned(), ROUNDS.to_string());
    let foreign: Vec<_> = (0..2)
        .map(|_| Foreign::go(&etcd, "count", &[&rounds, &text]))
        .collect();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let (session, file) = (session(&etcd.url(), "ttl=10s").await, file.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = lock(&session, NAME).await;
                let number: u32 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
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
    let mut counted = String::new();
    std::fs::File::open(&file)
        .unwrap()
        .read_to_string(&mut counted)
        .unwrap();
    assert_eq!(counted, (4 * ROUNDS).to_string());
}
