//! The servers of a session: one, or the masters of a cluster.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{Cmd, ErrorKind as RedisKind, FromRedisValue, RedisError, Script, ServerErrorKind};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::cluster::{Cluster, slot};
use super::config::RedisConfig;
use super::fault::fault;
use super::fit::Mode;
use super::link::{Common, Ears, Link};
use super::lock;
use super::place::Place;
use super::switches::Switches;
use super::way::{ANSWER_WITHIN, Access, Way};
use super::witness::Witnesses;
use crate::backoff;
use crate::error::Result;
use crate::random::random_u64;

/// The servers, and how to ask the right one.
pub(super) struct Server {
    pub(super) label: String,
    links: Links,
    common: Arc<Common>,
    witnesses: Witnesses,
    switches: Switches,
}

enum Links {
    One(Arc<Link>),
    Cluster(Cluster),
}

/// Who did what was asked for: a link, and the number of its connection.
pub(super) struct Doer {
    pub(super) link: Arc<Link>,
    pub(super) number: u64,
}

/// What is sent: a command, or a script that the server may have to learn first.
pub(super) enum Request<'a> {
    Command(&'a Cmd),
    Script(&'a Script, Cmd),
}

impl Request<'_> {
    pub(super) async fn send<T: FromRedisValue>(
        &self,
        link: &Link,
        anyway: bool,
    ) -> Result<(T, u64), RedisError> {
        let (script, command) = match self {
            Self::Command(command) => (None, *command),
            Self::Script(script, command) => (Some(script), command),
        };
        let answer = ask(link, command, anyway).await;
        let (Some(script), Err(error)) = (script, &answer) else {
            return answer;
        };
        if error.kind() != RedisKind::Server(ServerErrorKind::NoScript) {
            return answer;
        }
        // Rare and large: in a box, so that every other request is small.
        Box::pin(async {
            link.load(script).await?;
            ask(link, command, anyway).await
        })
        .await
    }
}

async fn ask<T: FromRedisValue>(
    link: &Link,
    command: &Cmd,
    anyway: bool,
) -> Result<(T, u64), RedisError> {
    match anyway {
        false => link.ask_noting(command).await,
        true => Box::pin(link.ask_anyway(command)).await,
    }
}

impl Server {
    /// Connects and looks whether the servers fit. Messages go to the ears;
    /// every new connection is greeted with these commands.
    pub(super) async fn connect(
        config: &RedisConfig,
        ears: Arc<dyn Ears>,
        greeting: &'static [&'static [&'static str]],
    ) -> Result<Self> {
        let label = config.label();
        let access = Access::new(config)?;
        let mode = match config.place {
            Place::Cluster(_) => Mode::Cluster,
            _ => Mode::Single,
        };
        let common = Arc::new(Common {
            access,
            mode,
            ears,
            greeting,
            channels: Mutex::default(),
        });
        let wrong = |error| fault(error, "connect".into(), &label);
        let links = match (&config.place, Way::of(&config.place)) {
            (Place::Cluster(seeds), _) => {
                let cluster = Cluster::connect(seeds.clone(), common.clone()).await;
                let cluster = cluster.map_err(wrong)?;
                // One that is down is tried again when it is needed.
                let links = cluster.links();
                join_all(links.iter().map(|link| link.connect())).await;
                Links::Cluster(cluster)
            }
            (_, Some(way)) => {
                let link = Link::new(0, way, label.clone(), common.clone());
                link.connect().await.map_err(wrong)?;
                Links::One(link)
            }
            (_, None) => {
                let kind = RedisKind::InvalidClientConfig;
                return Err(wrong((kind, "no server named").into()));
            }
        };
        let witnesses = Witnesses::new(config, &common);
        let server = Self {
            label,
            links,
            common,
            witnesses,
            switches: Switches::of(&config.place),
        };
        if let Links::One(link) = &server.links {
            server.switches.open(&server.common.access, link).await;
        }
        server.witnesses.probe(&server.links()).await?;
        Ok(server)
    }

    /// All links that there are.
    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        match &self.links {
            Links::One(link) => vec![link.clone()],
            Links::Cluster(cluster) => cluster.links(),
        }
    }

    /// The link, if there is one for all keys.
    pub(super) fn only_link(&self) -> Option<Arc<Link>> {
        match &self.links {
            Links::One(link) => Some(link.clone()),
            Links::Cluster(_) => None,
        }
    }

    /// The link to the server that has the key.
    pub(super) fn link(&self, key: &str) -> Option<Arc<Link>> {
        match &self.links {
            Links::One(link) => Some(link.clone()),
            Links::Cluster(cluster) => cluster.link(key),
        }
    }

    /// Groups of at most so many, each of which one script may work on.
    pub(super) fn batches<T>(
        &self,
        items: Vec<T>,
        most: usize,
        key: impl Fn(&T) -> String,
    ) -> Vec<Vec<T>> {
        let mut batches: Vec<Vec<T>> = Vec::new();
        match &self.links {
            Links::One(_) => {
                for item in items {
                    match batches.last_mut() {
                        Some(batch) if batch.len() < most => batch.push(item),
                        _ => batches.push(vec![item]),
                    }
                }
            }
            Links::Cluster(_) => {
                let mut by_slot = std::collections::HashMap::<u16, Vec<T>>::new();
                for item in items {
                    by_slot.entry(slot(&key(&item))).or_default().push(item);
                }
                for mut items in by_slot.into_values() {
                    while items.len() > most {
                        batches.push(items.split_off(items.len() - most));
                    }
                    batches.push(items);
                }
            }
        }
        batches
    }

    /// Whether one script may work on all of these keys.
    pub(super) fn is_one_slot(&self, keys: &[&str]) -> bool {
        match &self.links {
            Links::One(_) => true,
            Links::Cluster(_) => keys.windows(2).all(|pair| slot(pair[0]) == slot(pair[1])),
        }
    }

    /// Sends a command about the key.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        key: &str,
        command: &Cmd,
        doing: impl FnOnce() -> String,
    ) -> Result<T> {
        let answer = self.send(key, &Request::Command(command)).await;
        let answer = answer.map(|(answer, _)| answer);
        answer.map_err(|error| fault(error, doing(), &self.label))
    }

    /// Runs a script on keys that are all in one slot.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        doing: impl FnOnce() -> String,
    ) -> Result<T> {
        let answer = self.run_noting(script, keys, arguments, doing).await;
        answer.map(|(answer, _)| answer)
    }

    /// As `run`; also says who did it, for `confirm`.
    pub(super) async fn run_noting<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        doing: impl FnOnce() -> String,
    ) -> Result<(T, Doer)> {
        let length = |parts: &[&str]| parts.iter().map(|part| part.len()).sum::<usize>();
        let size = 64 + length(keys) + length(arguments);
        let mut command = Cmd::with_capacity(3 + keys.len() + arguments.len(), size);
        command.arg("EVALSHA").arg(script.get_hash());
        command.arg(keys.len()).arg(keys).arg(arguments);
        let key = keys.first().copied().unwrap_or_default();
        let answer = self.send(key, &Request::Script(script, command)).await;
        answer.map_err(|error| fault(error, doing(), &self.label))
    }

    async fn send<T: FromRedisValue>(
        &self,
        key: &str,
        request: &Request<'_>,
    ) -> Result<(T, Doer), RedisError> {
        match &self.links {
            Links::One(link) => {
                let (answer, number) = request.send(link, false).await?;
                let link = link.clone();
                Ok((answer, Doer { link, number }))
            }
            Links::Cluster(cluster) => Box::pin(cluster.send(key, request)).await,
        }
    }

    /// Waits until what was just written beside the key is as durable as was
    /// asked for.
    pub(super) async fn confirm(
        &self,
        doer: &Doer,
        key: &str,
        doing: impl FnOnce() -> String,
    ) -> Result<()> {
        self.witnesses.confirm(doer, key, doing).await
    }

    /// Listens to a channel on every server, also on those that come later.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<()> {
        lock(&self.common.channels).push(channel.to_owned());
        let result = self
            .everywhere(|link| async move { link.subscribe(channel).await })
            .await;
        if result.is_err() {
            self.leave(channel);
        }
        result.map_err(|error| fault(error, "open a session".into(), &self.label))
    }

    pub(super) async fn unsubscribe(&self, channel: &str) -> Result<()> {
        self.leave(channel);
        let result = self
            .everywhere(|link| async move { link.unsubscribe(channel).await })
            .await;
        result.map_err(|error| fault(error, "close the session".into(), &self.label))
    }

    fn leave(&self, channel: &str) {
        lock(&self.common.channels).retain(|other| other != channel);
    }

    /// Does it on every server. One that is down is no error if others are not:
    /// it is asked when it is back, or when it is needed.
    async fn everywhere<F>(&self, act: impl Fn(Arc<Link>) -> F) -> Result<(), RedisError>
    where
        F: Future<Output = Result<(), RedisError>>,
    {
        let mut acts: FuturesUnordered<_> = self.links().into_iter().map(act).collect();
        let (mut error, mut is_done) = (None, false);
        while let Some(result) = acts.next().await {
            match result {
                Err(why) => error = error.or(Some(why)),
                Ok(()) => {
                    is_done = true;
                    break;
                }
            }
        }
        // One that hangs would use up the time of the session.
        let others = acts.collect::<Vec<_>>();
        let _ = tokio::time::timeout(ANSWER_WITHIN / 4, others).await;
        match error {
            Some(error) if !is_done => Err(error),
            _ => Ok(()),
        }
    }

    /// Teaches every server a script. It is no error if one cannot be reached:
    /// whoever runs the script there does it then.
    pub(super) async fn teach(&self, script: &Script) {
        let load = |link: Arc<Link>| async move { link.load(script).await };
        let _ = self.everywhere(load).await;
    }

    /// Makes lost connections anew, so that held claims are verified as soon as
    /// that can be and not when their renewal is due; and leaves a server that
    /// was replaced as soon as a Sentinel says so. Never returns.
    pub(super) async fn mend(&self) {
        match &self.links {
            Links::One(link) => {
                let heed = self.switches.heed(&self.common.access, link);
                tokio::join!(heed, self.mend_links());
            }
            Links::Cluster(_) => self.mend_links().await,
        }
    }

    async fn mend_links(&self) {
        let mut pauses = 0;
        loop {
            let lost: Vec<_> = self.links().into_iter().filter(|l| l.is_lost()).collect();
            if lost.is_empty() {
                // Whoever loses one tells the ears, and this is called again.
                return std::future::pending().await;
            }
            // Where it is known by now who took its place, that is found out too.
            if let Links::Cluster(cluster) = &self.links {
                let _ = cluster.learn_if_stale().await;
            }
            join_all(lost.iter().map(|link| link.connect())).await;
            let (first, longest) = (Duration::from_millis(50), Duration::from_secs(1));
            let pause = backoff::pause(pauses, first, longest, random_u64());
            tokio::time::sleep(pause).await;
            pauses += 1;
        }
    }

    /// Learns the clocks of all servers that answer; an error if none does.
    pub(super) async fn learn_times(&self, doing: &str) -> Result<()> {
        let ask = |link: Arc<Link>| async move {
            let (seconds, micros): (u64, u64) = link.ask(&::redis::cmd("TIME")).await?;
            link.learn_time(seconds * 1000 + micros / 1000);
            Ok(())
        };
        let result = self.everywhere(ask).await;
        result.map_err(|error| fault(error, doing.into(), &self.label))
    }

    /// The server's clock after that time, in milliseconds, if it is known.
    pub(super) fn time_in(&self, key: &str, later: Duration) -> Option<u64> {
        self.link(key)?.time_in(later)
    }

    /// Learns the clock of the server that has the key from its answer.
    pub(super) fn learn_time(&self, key: &str, millis: u64) {
        if let Some(link) = self.link(key) {
            link.learn_time(millis);
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.label).finish()
    }
}
