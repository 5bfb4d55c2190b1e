//! The one connection of a session: requests, and messages beside them.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::{Client, Cmd, FromRedisValue, PushInfo, Script};

use super::config::RedisConfig;
use super::fault::fault;
use super::inbox::{Inbox, lock};
use super::scripts::Scripts;
use crate::clock::{Moment, boot_time};
use crate::error::{Error, ErrorKind, Result};

/// How long an answer may take; a session with a shorter ttl gives up earlier.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const OLDEST: (u32, u32) = (6, 2);

/// A server, and what we have in it.
pub(super) struct Server {
    manager: ConnectionManager,
    pub(super) label: String,
    pub(super) scripts: Scripts,
    pub(super) inbox: Arc<Inbox>,
    /// The server's clock in milliseconds, and when we learned it.
    time: Mutex<Option<(u64, Moment)>>,
}

impl Server {
    pub(super) async fn connect(config: RedisConfig) -> Result<Self> {
        let label = config.label();
        let doing = || "connect".to_owned();
        let inbox = Arc::new(Inbox::default());
        let messages = inbox.clone();
        let take_in = move |push: PushInfo| {
            messages.take_in(push);
            Ok::<(), ()>(())
        };
        let settings = ConnectionManagerConfig::new()
            .set_push_sender(take_in)
            .set_automatic_resubscription()
            .set_response_timeout(Some(ANSWER_WITHIN))
            .set_connection_timeout(Some(ANSWER_WITHIN))
            // Whoever asks tries again; a hidden retry would only hold it up.
            .set_number_of_retries(0);
        let wrong = |error| fault(error, doing(), &label);
        let client = Client::open(config.connection).map_err(wrong)?;
        let manager = ConnectionManager::new_with_config(client, settings).await;
        let server = Self {
            manager: manager.map_err(wrong)?,
            label,
            scripts: Scripts::new(),
            inbox,
            time: Mutex::default(),
        };
        let info = server.info("connect").await?;
        match misfit(&info) {
            None => Ok(server),
            Some((kind, why)) => Err(Error::new(kind, "connect", why).on(&*server.label)),
        }
    }

    pub(super) async fn info(&self, doing: &str) -> Result<String> {
        self.ask(&::redis::cmd("INFO"), || doing.to_owned()).await
    }

    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        command: &Cmd,
        doing: impl FnOnce() -> String,
    ) -> Result<T> {
        let answer = command.query_async(&mut self.manager.clone()).await;
        answer.map_err(|error| fault(error, doing(), &self.label))
    }

    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        doing: impl FnOnce() -> String,
    ) -> Result<T> {
        let mut call = script.prepare_invoke();
        call.key(keys).arg(arguments);
        let answer = call.invoke_async(&mut self.manager.clone()).await;
        answer.map_err(|error| fault(error, doing(), &self.label))
    }

    pub(super) async fn subscribe(&self, channel: &str) -> Result<()> {
        let answer = self.manager.clone().subscribe(channel).await;
        answer.map_err(|error| fault(error, "open a session".into(), &self.label))
    }

    pub(super) async fn unsubscribe(&self, channel: &str) -> Result<()> {
        let answer = self.manager.clone().unsubscribe(channel).await;
        answer.map_err(|error| fault(error, "close the session".into(), &self.label))
    }

    /// Learns the server's clock from an answer that just came.
    pub(super) fn learn_time(&self, millis: u64) {
        *lock(&self.time) = Some((millis, boot_time()));
    }

    /// The server's clock after that time, in milliseconds. It was read before
    /// its answer came, so this is never too late.
    pub(super) fn time_in(&self, later: Duration) -> Option<u64> {
        let (millis, learned) = (*lock(&self.time))?;
        Some(millis + whole_millis(boot_time().since(learned) + later))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.label).finish()
    }
}

pub(super) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A value of the server's `INFO`.
pub(super) fn value<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
}

/// Why this server cannot be used, if so.
fn misfit(info: &str) -> Option<(ErrorKind, String)> {
    let version = value(info, "redis_version").unwrap_or("");
    let mut parts = version.split('.').map_while(|part| part.parse().ok());
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if (major, minor) < OLDEST {
        let (major, minor) = OLDEST;
        let why = format!("the server is Redis {version}; {major}.{minor} or newer is needed");
        return Some((ErrorKind::Config, why));
    }
    if value(info, "redis_mode") == Some("cluster") {
        let why = "this is a node of a cluster; name a standalone server";
        return Some((ErrorKind::Config, why.into()));
    }
    if value(info, "redis_mode") == Some("sentinel") {
        let why = "this is a sentinel; name the master it watches";
        return Some((ErrorKind::Config, why.into()));
    }
    if value(info, "loading") == Some("1") {
        let why = "the server is still loading its data";
        return Some((ErrorKind::Unavailable, why.into()));
    }
    if value(info, "role").is_some_and(|role| role != "master") {
        let why = "the server is a read-only replica; name its master";
        return Some((ErrorKind::Unavailable, why.into()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(info: &str) -> String {
        misfit(info).map_or_else(String::new, |(_, why)| why)
    }

    #[test]
    fn a_server_that_does_not_fit_is_refused_with_the_reason() {
        let good = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nloading:0\r\nrole:master\r\n";
        assert_eq!(misfit(good), None);
        assert!(why(&good.replace("7.0.15", "6.0.9")).contains("Redis 6.0.9; 6.2 or newer"));
        assert!(why(&good.replace("standalone", "cluster")).contains("cluster"));
        assert!(why(&good.replace("loading:0", "loading:1")).contains("loading"));
        assert!(why(&good.replace("master", "slave")).contains("replica"));
    }
}
