//! rslock on one server, its manager shared by all tasks.

use std::time::Duration;

use ::rslock::LockManager;

use crate::exit::{self, Failure};

use super::super::server::Server;
use super::super::slice::Slice;
use super::{Names, Reached};

#[derive(Debug)]
pub(crate) struct Rslock {
    manager: LockManager,
}

impl Rslock {
    pub(crate) fn open(server: &Server) -> Result<Self, Failure> {
        let client = redis::Client::open(server.url()).map_err(|error| server.fault(error))?;
        let manager = LockManager::from_clients(vec![client]);
        Ok(Self { manager })
    }

    pub(crate) async fn slice(
        &self,
        names: Names,
        tasks: usize,
        time: Duration,
    ) -> Result<Reached, Failure> {
        let manager = self.manager.clone();
        let cycle = move |task: usize| {
            let manager = manager.clone();
            let name = match names {
                Names::OneEach => format!("leasehold-bench/rslock/{task}"),
                Names::OneForAll => "leasehold-bench/rslock".to_owned(),
            };
            async move {
                let lock = manager
                    .acquire_no_guard(name.as_str(), Duration::from_secs(10))
                    .await;
                let lock = lock
                    .map_err(|error| Failure::new(exit::UNAVAILABLE, format!("rslock: {error}")))?;
                manager.unlock(&lock).await;
                Ok::<_, Failure>(())
            }
        };
        let mut slice = Slice::of(tasks, time, cycle).await?;
        Ok(Reached {
            p50: slice.p50(),
            rate: slice.rate(),
        })
    }
}
