//! The ways to lock with Redis that people write themselves, each with its hole.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::section::{Done, section};
use super::{Accident, Strategy, Worker, die, stand_still, tell};
use crate::history::{Event, now};
use crate::resource::{Client, Wanted};

/// How long a contender waits before it tries again.
const RETRY: Duration = Duration::from_millis(2);

const COMPARE_AND_DELETE: &str = "\
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Locks and works until the work is done.
pub(super) async fn run(worker: &Worker, by: &str, local: &tokio::sync::Mutex<()>) -> Result<()> {
    let mut client = Client::connect(worker.job.resource, by)?;
    let mut lock = match worker.job.strategy {
        Strategy::NoLock | Strategy::InProcess | Strategy::Decrement => None,
        _ => Some(Lock::connect(worker, by).await?),
    };
    let name = &worker.job.lock;
    loop {
        tell(by, Event::Asks { name: name.clone() });
        let in_process = match worker.job.strategy {
            Strategy::InProcess => Some(local.lock().await),
            _ => None,
        };
        let hold = worker.next_hold();
        if let Some(lock) = &mut lock
            && !lock.take(hold).await?
        {
            let why = "nobody lets me in".to_owned();
            let unknown = false;
            tell(by, Event::Refused { why, unknown });
            return Ok(());
        }
        let done = if worker.job.strategy == Strategy::Decrement {
            match client.ask(Wanted::Decrement, None)?.accepted {
                true => Done::Written,
                false => Done::Empty,
            }
        } else {
            let granted = Event::Granted {
                name: name.clone(),
                token: None,
                until: None,
            };
            tell(by, granted);
            let done = section(worker, by, hold, &mut client, None, || true).await?;
            tell(by, Event::Releases);
            done.unwrap_or(Done::Refused)
        };
        if let Some(lock) = &mut lock {
            lock.give_back(hold).await?;
        }
        drop(in_process);
        if done == Done::Empty || worker.is_done(hold + 1) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(worker.job.work.rests_millis)).await;
    }
}

/// A lock as it is written again and again.
struct Lock<'a> {
    worker: &'a Worker,
    by: &'a str,
    connection: MultiplexedConnection,
    /// What is in the key while it is ours.
    id: String,
}

impl<'a> Lock<'a> {
    async fn connect(worker: &'a Worker, by: &'a str) -> Result<Self> {
        let client = redis::Client::open(worker.job.url.as_str())?;
        let connection = client.get_multiplexed_async_connection().await?;
        let id = format!("{:016x}", RandomState::new().hash_one(by));
        Ok(Self {
            worker,
            by,
            connection,
            id,
        })
    }

    /// Whether it could be had in time. Until when it lasts nobody asks who locks
    /// like this: it believes to hold until it gives the lock back.
    async fn take(&mut self, hold: u64) -> Result<bool> {
        let job = &self.worker.job;
        let mut command = redis::cmd("SET");
        command.arg(&job.lock).arg(&self.id).arg("NX");
        let ends = !matches!(
            job.strategy,
            Strategy::SetnxForever | Strategy::SetnxThenExpire
        );
        if ends {
            command.arg("PX").arg(job.ttl_millis);
        }
        let deadline = now() + job.patience_millis * 1_000_000;
        loop {
            let got: Option<String> = command.query_async(&mut self.connection).await?;
            if got.is_some() {
                break;
            }
            if now() > deadline {
                return Ok(false);
            }
            tokio::time::sleep(RETRY).await;
        }
        if job.strategy == Strategy::SetnxThenExpire {
            if self.worker.has(hold, &Accident::DiesBeforeExpiry) {
                die(self.by);
            }
            let mut expire = redis::cmd("PEXPIRE");
            expire.arg(&job.lock).arg(job.ttl_millis);
            expire.exec_async(&mut self.connection).await?;
        }
        if job.strategy == Strategy::RenewedForever {
            tokio::spawn(renew_forever(
                self.connection.clone(),
                job.lock.clone(),
                job.ttl_millis,
            ));
        }
        Ok(true)
    }

    async fn give_back(&mut self, hold: u64) -> Result<()> {
        let key = &self.worker.job.lock;
        match self.worker.job.strategy {
            Strategy::GetThenDelete => {
                let mut get = redis::cmd("GET");
                let found: Option<String> = get.arg(key).query_async(&mut self.connection).await?;
                if self.worker.has(hold, &Accident::StopsBeforeDelete) {
                    stand_still();
                }
                if found.as_ref() == Some(&self.id) {
                    redis::cmd("DEL")
                        .arg(key)
                        .exec_async(&mut self.connection)
                        .await?;
                }
            }
            Strategy::NoRenewal | Strategy::SetnxThenExpire => {
                let script = redis::Script::new(COMPARE_AND_DELETE);
                let mut script = script.key(key);
                let _: i64 = script
                    .arg(&self.id)
                    .invoke_async(&mut self.connection)
                    .await?;
            }
            _ => {
                redis::cmd("DEL")
                    .arg(key)
                    .exec_async(&mut self.connection)
                    .await?;
            }
        }
        Ok(())
    }
}

/// The timer that outlives what it is for.
async fn renew_forever(mut connection: MultiplexedConnection, key: String, ttl_millis: u64) {
    loop {
        tokio::time::sleep(Duration::from_millis(ttl_millis / 3)).await;
        let mut expire = redis::cmd("PEXPIRE");
        let expired = expire.arg(&key).arg(ttl_millis).exec_async(&mut connection);
        if expired.await.is_err() {
            return;
        }
    }
}
