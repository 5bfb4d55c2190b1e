//! Others who have seen a write: replicas, or the server's own disk.
//!
//! `WAIT` holds up everything behind it on its connection, so it has one of its
//! own; a small write goes before it there, because it waits for the writes of
//! its own connection only. One round confirms all that was written before it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{Cmd, RedisError};

use super::config::{Durability, RedisConfig};
use super::fault::fault;
use super::fit::{value, version};
use super::link::{Common, Ears, Link};
use super::server::Doer;
use super::{lock, whole_millis};
use crate::error::{Effect, Error, ErrorKind, Result};

/// How long the witnesses have.
const WITHIN: Duration = Duration::from_millis(500);

/// The witnesses of every link.
pub(super) struct Witnesses {
    durability: Durability,
    /// The server never answers before it is on its disk.
    is_always: AtomicBool,
    common: Arc<Common>,
    witnesses: Mutex<HashMap<String, Arc<Witness>>>,
}

struct Witness {
    link: Arc<Link>,
    rounds: Mutex<Rounds>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Rounds {
    started: u64,
    /// The last round that came to its end, and what came of it.
    finished: Option<(u64, Seen)>,
}

/// How many had seen, and what.
#[derive(Clone)]
struct Seen {
    count: u32,
    /// The server whose writes they have seen, and the connection to it.
    server: Option<String>,
    connection: u64,
}

/// Nobody writes to this connection.
#[derive(Debug)]
struct Deaf;

impl Ears for Deaf {
    fn hear(&self, _channel: &str, _message: &[u8]) {}
    fn missed(&self) {}
}

impl Witnesses {
    pub(super) fn new(config: &RedisConfig, common: &Common) -> Self {
        let common = Common {
            access: common.access.clone(),
            mode: common.mode,
            ears: Arc::new(Deaf),
            greeting: &[],
            channels: Mutex::default(),
        };
        Self {
            durability: config.durability,
            is_always: AtomicBool::new(false),
            common: Arc::new(common),
            witnesses: Mutex::default(),
        }
    }

    /// Whether the servers can be asked at all.
    pub(super) async fn probe(&self, links: &[Arc<Link>]) -> Result<()> {
        for link in links {
            let probed = match self.durability {
                Durability::None => return Ok(()),
                Durability::Replicas(_) => probe_wait(link).await,
                Durability::Fsync => self.probe_fsync(link).await,
            };
            let why = probed.map_err(|error| fault(error, "connect".into(), &link.label))?;
            if let Some(why) = why {
                return Err(Error::new(ErrorKind::Config, "connect", why).on(&*link.label));
            }
        }
        Ok(())
    }

    /// Waits until enough have seen what was written before this was called.
    pub(super) async fn confirm(
        &self,
        doer: &Doer,
        key: &str,
        doing: impl FnOnce() -> String,
    ) -> Result<()> {
        let link = &doer.link;
        let (needed, what) = match self.durability {
            Durability::None => return Ok(()),
            Durability::Fsync if self.is_always.load(Ordering::Relaxed) => return Ok(()),
            Durability::Replicas(needed) => (needed, "replicas"),
            Durability::Fsync => (1, "disk"),
        };
        let witness = self.witness(link);
        // Rare and large: in a box, so that a request without it is small.
        let seen = match Box::pin(witness.round(key, self.durability)).await {
            Ok(seen) => seen,
            Err(error) => return Err(fault(error, doing(), &link.label).effect_is(Effect::Unknown)),
        };
        if seen.server != link.server(doer.number) {
            // Another server took its place, and may not have what was written.
            // One of the two connections is out of date; nobody knows which.
            link.end(doer.number);
            witness.link.end(seen.connection);
            let why = "another server answers than the one that was written to";
            let error = Error::new(ErrorKind::Unavailable, doing(), why);
            return Err(error.on(&*link.label).effect_is(Effect::Unknown));
        }
        let seen = seen.count;
        if seen >= needed {
            return Ok(());
        }
        let within = WITHIN.as_millis();
        let why = format!("{seen} of {needed} {what} confirmed it within {within} ms");
        let error = Error::new(ErrorKind::Unavailable, doing(), why);
        Err(error.on(&*link.label).effect_is(Effect::Unknown))
    }

    async fn probe_fsync(&self, link: &Link) -> Result<Option<String>, RedisError> {
        let info: String = link.ask(&::redis::cmd("INFO")).await?;
        if value(&info, "aof_enabled") != Some("1") {
            let why = "durability=fsync: the server has no append-only file; set appendonly to yes";
            return Ok(Some(why.into()));
        }
        if version(&info) >= (7, 2) {
            return Ok(None);
        }
        let mut question = ::redis::cmd("CONFIG");
        question.arg("GET").arg("appendfsync");
        let policy = link.ask::<HashMap<String, String>>(&question).await;
        let policy = policy
            .ok()
            .and_then(|mut policy| policy.remove("appendfsync"));
        if policy.as_deref() == Some("always") {
            self.is_always.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let version = value(&info, "redis_version").unwrap_or("older");
        Ok(Some(format!(
            "durability=fsync: needs Redis 7.2 or appendfsync always; the server is Redis {version}"
        )))
    }

    fn witness(&self, link: &Link) -> Arc<Witness> {
        let make = || {
            Arc::new(Witness {
                link: link.beside(self.common.clone()),
                rounds: Mutex::default(),
                turn: tokio::sync::Mutex::default(),
            })
        };
        let mut witnesses = lock(&self.witnesses);
        let witness = witnesses.entry(link.label.clone());
        witness.or_insert_with(make).clone()
    }
}

impl Witness {
    /// How many have seen, by a round that started after this was called.
    async fn round(&self, key: &str, durability: Durability) -> Result<Seen, RedisError> {
        let needed = lock(&self.rounds).started + 1;
        let _turn = self.turn.lock().await;
        let number = {
            let mut rounds = lock(&self.rounds);
            if let Some((number, seen)) = &rounds.finished
                && *number >= needed
            {
                return Ok(seen.clone());
            }
            rounds.started += 1;
            rounds.started
        };
        let mut mark = ::redis::cmd("SET");
        let lifetime = whole_millis(2 * WITHIN);
        mark.arg(format!("{key}:w")).arg(1).arg("PX").arg(lifetime);
        let mut wait = Cmd::new();
        let (count, connection) = match durability {
            Durability::Fsync => {
                wait.arg("WAITAOF").arg(1).arg(0).arg(whole_millis(WITHIN));
                let answer = self.link.ask_after(&mark, &wait).await?;
                let ((disk, _), connection): ((u32, u32), _) = answer;
                (disk, connection)
            }
            Durability::Replicas(count) => {
                wait.arg("WAIT").arg(count).arg(whole_millis(WITHIN));
                self.link.ask_after(&mark, &wait).await?
            }
            Durability::None => (0, 0),
        };
        let seen = Seen {
            count,
            server: self.link.server(connection),
            connection,
        };
        lock(&self.rounds).finished = Some((number, seen.clone()));
        Ok(seen)
    }
}

async fn probe_wait(link: &Link) -> Result<Option<String>, RedisError> {
    let mut wait = ::redis::cmd("WAIT");
    wait.arg(0).arg(1);
    match link.ask::<u32>(&wait).await {
        Err(error) if error.code() == Some("ERR") => Ok(Some(
            "durability=replicas: the server has no WAIT; leave the option out".into(),
        )),
        answer => answer.map(|_| None),
    }
}
