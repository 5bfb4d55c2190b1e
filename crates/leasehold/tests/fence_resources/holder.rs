//! A holder in a process of its own, which can be stopped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use leasehold::ErrorKind;
use rustix::process::{Pid, Signal, kill_process};

use crate::resource::Resource;
use crate::server::RedisServer;

const KIND: &str = "LEASEHOLD_TEST_RESOURCE";
const PLACE: &str = "LEASEHOLD_TEST_PLACE";
const LOCKS: &str = "LEASEHOLD_TEST_LOCKS";
const LOCK: &str = "the/lock";

/// Whether this process is to be a holder.
pub(crate) fn is_one() -> bool {
    std::env::var_os(KIND).is_some()
}

/// Takes the lock, claims and reads, waits to be told, writes, and says what
/// became of it.
pub(crate) async fn hold() {
    let variable = |name| std::env::var(name).unwrap();
    let session = leasehold::connect(&variable(LOCKS)).await.unwrap();
    let guard = session.mutex(LOCK).lock().await.unwrap();
    let claimed = Resource::claim(&variable(KIND), &variable(PLACE), guard.fence()).await;
    let mut resource = claimed.unwrap();
    let before = resource.read().await.unwrap();
    assert_eq!(before, "", "somebody has been here");
    println!("claimed");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    match resource.write("by the first").await {
        Ok(()) => println!("written"),
        Err(error) if matches!(error.kind(), ErrorKind::Stale(_)) => println!("stale"),
        Err(error) => println!("{error}"),
    }
}

/// A holder that is killed with its test.
struct Holder(Child);

impl Holder {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stops a holder of this resource past its ttl, works in its place, lets it go
/// on, and expects it to say this.
pub(crate) async fn stopped(kind: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let server = kind.ends_with("redis").then(|| {
        let folder = folder.path().join("redis");
        std::fs::create_dir(&folder).unwrap();
        RedisServer::start(&folder, &[])
    });
    let place = match &server {
        Some(server) => server.url(),
        None => folder.path().join("value").display().to_string(),
    };
    let locks = folder.path().join("locks.db");
    let locks = format!("sqlite:{}?ttl=1s", locks.display());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .env(KIND, kind)
        .env(PLACE, &place)
        .env(LOCKS, &locks);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut first = Holder(command.spawn().unwrap());
    let mut said = BufReader::new(first.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "claimed");
    first.signal(Signal::STOP);

    let session = leasehold::connect(&locks).await.unwrap();
    let guard = session.mutex(LOCK).lock().await.unwrap();
    let mut resource = Resource::claim(kind, &place, guard.fence()).await.unwrap();
    let before = resource.read().await.unwrap();
    resource
        .write(&format!("{before}by the next"))
        .await
        .unwrap();

    first.signal(Signal::CONT);
    writeln!(first.0.stdin.as_mut().unwrap()).unwrap();
    assert_eq!(said.next().unwrap().unwrap(), expected);
    let after = resource.read().await.unwrap();
    match expected {
        "stale" => assert_eq!(after, "by the next"),
        _ => assert_eq!(after, "by the first", "the next one's work is lost"),
    }
}
