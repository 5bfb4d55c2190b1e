//! rslock on the same nodes.

use std::time::Duration;

use ::rslock::LockManager;

use crate::bench::redis::{fault, slice::Slice};
use crate::exit::{self, Failure};

use super::nodes::Nodes;

#[derive(Debug)]
pub(crate) struct Rslock {
    manager: LockManager,
}

impl Rslock {
    pub(crate) fn open(nodes: &Nodes) -> Result<Self, Failure> {
        let clients = nodes.urls().into_iter().map(redis::Client::open);
        let clients: redis::RedisResult<Vec<_>> = clients.collect();
        let clients = clients.map_err(fault(&nodes.url))?;
        Ok(Self {
            manager: LockManager::from_clients(clients),
        })
    }

    pub(crate) async fn slice(&self, tasks: usize, time: Duration) -> Result<Slice, Failure> {
        let manager = self.manager.clone();
        let cycle = move |task: usize| {
            let manager = manager.clone();
            let name = format!("leasehold-bench/rslock/{task}");
            async move {
                let ttl = Duration::from_secs(10);
                let lock = manager.acquire_no_guard(name.as_str(), ttl).await;
                let lock = lock
                    .map_err(|error| Failure::new(exit::UNAVAILABLE, format!("rslock: {error}")))?;
                manager.unlock(&lock).await;
                Ok::<_, Failure>(())
            }
        };
        Slice::of(tasks, time, cycle).await
    }
}
