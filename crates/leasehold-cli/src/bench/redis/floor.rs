//! The raw floor: the barest lock that the same server gives through the same
//! client. `SET key value NX PX ttl` takes it, a script that compares and deletes
//! gives it back: no queue, no fairness, no fencing token, no watchdog. On one
//! name that everybody wants it is a list with one token in it: `BLPOP` takes
//! the token, `RPUSH` hands it to whoever has waited longest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, Script};

use crate::exit::Failure;

use super::server::Server;
use super::slice::Slice;

pub(crate) const UNLOCK: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const TTL_MILLIS: u64 = 10_000;
const TOKEN: &str = "leasehold-bench/floor/token";

/// Bare locks, over a connection for each task or one for all.
#[derive(Clone)]
pub(crate) struct Floor {
    connections: Arc<[MultiplexedConnection]>,
    unlock: Arc<Script>,
    cycles: Arc<AtomicU64>,
    url: Arc<str>,
}

impl Floor {
    pub(crate) async fn open(server: &Server, connections: usize) -> Result<Self, Failure> {
        let mut opened = Vec::with_capacity(connections);
        for _ in 0..connections {
            opened.push(server.connect().await?);
        }
        Ok(Self {
            connections: opened.into(),
            unlock: Arc::new(Script::new(UNLOCK)),
            cycles: Arc::default(),
            url: server.url().into(),
        })
    }

    /// A slice of so many tasks, each on a name of its own.
    pub(crate) async fn slice(&self, tasks: usize, time: Duration) -> Result<Slice, Failure> {
        let floor = self.clone();
        let cycle = move |task| {
            let floor = floor.clone();
            async move { floor.cycle(task).await.map_err(super::fault(&floor.url)) }
        };
        Slice::of(tasks, time, cycle).await
    }

    async fn cycle(&self, task: usize) -> redis::RedisResult<()> {
        let mut connection = self.connections[task % self.connections.len()].clone();
        let name = format!("leasehold-bench/floor/{task}");
        let value = format!("{:032x}", self.cycles.fetch_add(1, Ordering::Relaxed));
        let mut set = redis::cmd("SET");
        set.arg(&name)
            .arg(&value)
            .arg("NX")
            .arg("PX")
            .arg(TTL_MILLIS);
        let taken: Option<String> = set.query_async(&mut connection).await?;
        let mut unlock = self.unlock.prepare_invoke();
        unlock.key(&name).arg(&value);
        let given: u64 = unlock.invoke_async(&mut connection).await?;
        // A floor that does not lock is none.
        match (taken, given) {
            (Some(_), 1) => Ok(()),
            _ => Err((ErrorKind::Client, "the bare lock is in use elsewhere").into()),
        }
    }
}

/// One token that goes from connection to connection.
#[derive(Clone)]
pub(crate) struct HandOver {
    connections: Arc<[MultiplexedConnection]>,
    url: Arc<str>,
}

impl HandOver {
    pub(crate) async fn open(server: &Server, connections: usize) -> Result<Self, Failure> {
        let mut opened = Vec::with_capacity(connections);
        for _ in 0..connections {
            opened.push(server.connect_patiently().await?);
        }
        Ok(Self {
            connections: opened.into(),
            url: server.url().into(),
        })
    }

    pub(crate) async fn slice(&self, time: Duration) -> Result<Slice, Failure> {
        let fault = || super::fault(&self.url);
        let mut first = self.connections[0].clone();
        let mut fresh = redis::pipe();
        fresh.del(TOKEN).ignore().rpush(TOKEN, 1).ignore();
        let () = fresh.query_async(&mut first).await.map_err(fault())?;
        let floor = self.clone();
        let cycle = move |task| {
            let floor = floor.clone();
            async move { floor.cycle(task).await.map_err(super::fault(&floor.url)) }
        };
        let slice = Slice::of(self.connections.len(), time, cycle).await?;
        let gone = redis::cmd("DEL").arg(TOKEN).exec_async(&mut first).await;
        gone.map_err(fault())?;
        Ok(slice)
    }

    async fn cycle(&self, task: usize) -> redis::RedisResult<()> {
        let mut connection = self.connections[task].clone();
        let mut take = redis::cmd("BLPOP");
        let _: (String, u64) = take.arg(TOKEN).arg(10).query_async(&mut connection).await?;
        let mut give = redis::cmd("RPUSH");
        let _: u64 = give.arg(TOKEN).arg(1).query_async(&mut connection).await?;
        Ok(())
    }
}
