//! The raw floor: `SET key value NX PX ttl` to all nodes at once, waiting for
//! all, then a script that compares and deletes, waiting for all. No majority,
//! no limit, no token: what a lock on all nodes costs at least.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult, Script};

use crate::bench::redis::{fault, floor::UNLOCK, slice::Slice};
use crate::exit::Failure;

use super::nodes::Nodes;

const TTL_MILLIS: u64 = 10_000;

/// Bare locks over one connection per node.
#[derive(Clone)]
pub(crate) struct Floor {
    connections: Arc<[MultiplexedConnection]>,
    unlock: Arc<Script>,
    cycles: Arc<AtomicU64>,
    url: Arc<str>,
}

impl Floor {
    pub(crate) async fn open(nodes: &Nodes) -> Result<Self, Failure> {
        let mut connections = Vec::new();
        for server in nodes.servers().await? {
            connections.push(server.connect().await?);
        }
        let unlock = Script::new(UNLOCK);
        for connection in &mut connections {
            let loaded = unlock.load_async(connection).await;
            loaded.map_err(fault(&nodes.url))?;
        }
        Ok(Self {
            connections: connections.into(),
            unlock: Arc::new(unlock),
            cycles: Arc::default(),
            url: nodes.url.as_str().into(),
        })
    }

    /// A slice of so many tasks, each on a name of its own.
    pub(crate) async fn slice(&self, tasks: usize, time: Duration) -> Result<Slice, Failure> {
        let floor = self.clone();
        let cycle = move |task| {
            let floor = floor.clone();
            async move { floor.cycle(task).await.map_err(fault(&floor.url)) }
        };
        Slice::of(tasks, time, cycle).await
    }

    async fn cycle(&self, task: usize) -> RedisResult<()> {
        let name = format!("leasehold-bench/floor/{task}");
        let value = format!("{:032x}", self.cycles.fetch_add(1, Ordering::Relaxed));
        let mut set = redis::cmd("SET");
        set.arg(&name).arg(&value);
        set.arg("NX").arg("PX").arg(TTL_MILLIS);
        let set = &set;
        let taking = self.connections.iter().map(|connection| async move {
            let taken = set.query_async(&mut connection.clone()).await;
            taken.map(|taken: Option<String>| taken.is_some())
        });
        let taken: RedisResult<Vec<bool>> = join_all(taking).await.into_iter().collect();
        let mut unlock = redis::cmd("EVALSHA");
        unlock.arg(self.unlock.get_hash()).arg(1);
        unlock.arg(&name).arg(&value);
        let unlock = &unlock;
        let giving = self.connections.iter().map(|connection| async move {
            let given = unlock.query_async(&mut connection.clone()).await;
            given.map(|given: u64| given == 1)
        });
        let given: RedisResult<Vec<bool>> = join_all(giving).await.into_iter().collect();
        // A floor that does not lock is none.
        match taken?.into_iter().chain(given?).all(|is_done| is_done) {
            true => Ok(()),
            false => Err((ErrorKind::Client, "the bare lock is in use elsewhere").into()),
        }
    }
}
