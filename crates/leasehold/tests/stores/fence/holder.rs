//! A holder in a process of its own, which can be stopped.

use std::any::Any;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use leasehold::ErrorKind;
use rustix::process::{Pid, Signal, kill_process};

use crate::fence::resource::Resource;
use crate::fence::sql::place::{furnished, sqlite};
use crate::pools;
use testbed::s3::S3Server;

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
pub(crate) struct Holder(pub(crate) Child);

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

/// Where the resource is, and what has to run for it.
pub(crate) struct Ground {
    pub(crate) place: String,
    _server: Option<Box<dyn Any>>,
}

impl Ground {
    pub(crate) async fn new(kind: &str, folder: &Path) -> Self {
        let folder = folder.join(kind);
        std::fs::create_dir(&folder).unwrap();
        let mut server: Option<Box<dyn Any>> = None;
        let place = match kind {
            "redis" => {
                let redis = pools::REDIS.take();
                let url = redis.url();
                server = Some(Box::new(redis));
                url
            }
            "postgres" => {
                let postgres = pools::POSTGRES.take();
                let url = postgres.url();
                furnished::<sqlx_postgres::Postgres>(&url).await;
                server = Some(Box::new(postgres));
                url
            }
            "mysql" => {
                let mysql = pools::MYSQL.take();
                let url = mysql.url();
                furnished::<sqlx_mysql::MySql>(&url).await;
                server = Some(Box::new(mysql));
                url
            }
            "object" => {
                let object = S3Server::start();
                let url = object.url();
                server = Some(Box::new(object));
                url
            }
            "sqlite" => {
                let url = sqlite(&folder);
                furnished::<sqlx_sqlite::Sqlite>(&url).await;
                url
            }
            _ => folder.join("value").display().to_string(),
        };
        Self {
            place,
            _server: server,
        }
    }
}

pub(crate) async fn a_stopped_holder_is_refused(kind: &str) {
    stopped(kind, true).await;
}

pub(crate) async fn without_a_fence_it_is_not(kind: &str) {
    stopped(kind, false).await;
}

/// Stops a holder of this resource past its ttl, works in its place, and lets it
/// go on: it is refused if the resource checks fences, and writes if not.
async fn stopped(kind: &str, is_fenced: bool) {
    let folder = tempfile::tempdir().unwrap();
    let Ground { place, _server } = &Ground::new(kind, folder.path()).await;
    let kind = &match is_fenced {
        true => kind.to_owned(),
        false => format!("bare-{kind}"),
    };
    let expected = if is_fenced { "stale" } else { "written" };
    let locks = folder.path().join("locks.db");
    let locks = format!("sqlite:{}?ttl=1s", locks.display());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(KIND, kind).env(PLACE, place).env(LOCKS, &locks);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut first = Holder(command.spawn().unwrap());
    let mut said = BufReader::new(first.0.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "claimed");
    first.signal(Signal::STOP);

    let session = leasehold::connect(&locks).await.unwrap();
    let guard = session.mutex(LOCK).lock().await.unwrap();
    let mut resource = Resource::claim(kind, place, guard.fence()).await.unwrap();
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
