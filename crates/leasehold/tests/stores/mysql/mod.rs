//! Locks in real MariaDB servers: what lies in the tables, and what happens
//! when connections end, the server restarts, refuses, or answers are lost.

mod access;
mod barrier;
mod company;
mod cost;
mod faults;
mod fence;
mod galera;
mod load;
mod lossy;
mod lossy_steps;
mod memos;
mod replica;
mod standby;
mod terms;
mod tied;
mod tls;
mod users_pool;
mod way;

use std::time::Duration;

use leasehold::{Guard, Inspector, Lost, Session};
use testbed::mysql::Mysql;

const LONG: Duration = Duration::from_secs(120);

/// A server with these settings, or `None` if this machine has no MariaDB.
fn mysql(settings: &[&str]) -> (tempfile::TempDir, Mysql) {
    let folder = tempfile::tempdir().unwrap();
    let server = Mysql::start(folder.path(), settings);
    (folder, server)
}

async fn session(url: &str, options: &str) -> Session {
    leasehold::connect(&format!("{url}?{options}"))
        .await
        .unwrap()
}

async fn lock(session: &Session, name: &str) -> Guard {
    session.mutex(name).lock_within(LONG).await.unwrap()
}

async fn lost(guard: &Guard) -> Lost {
    tokio::time::timeout(LONG, guard.lost())
        .await
        .expect("it is told")
}

async fn inspector(url: &str) -> Inspector {
    leasehold::inspect(url).await.unwrap()
}

/// Waits until so many claims are in the queue.
async fn queue_of(inspector: &Inspector, name: &str, length: usize) {
    let waiting = async {
        while inspector.queue(name).await.unwrap().claims.len() != length {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting)
        .await
        .expect("the queue has the length");
}

/// Somebody who waits for a lock in the background.
fn wait_for_lock(session: &Session, name: &str) -> tokio::task::JoinHandle<Guard> {
    let mutex = session.mutex(name);
    tokio::spawn(async move { mutex.lock_within(LONG).await.unwrap() })
}

/// What came of waiting in the background.
async fn heard<T>(waiting: tokio::task::JoinHandle<T>) -> T {
    tokio::time::timeout(LONG, waiting).await.unwrap().unwrap()
}
