//! The nodes, and how all of them are asked at once.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{Cmd, FromRedisValue, RedisError, Script, Value};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;

use super::config::RedlockConfig;
use super::fan::{Make, lacks_script};
use super::guess::Guess;
use super::leftovers::Leftovers;
use super::owed::Owed;
use super::scripts::Scripts;
use crate::error::{Error, ErrorKind, Result};
use crate::redis::config::RedisConfig;
use crate::redis::fault::fault;
use crate::redis::fit::{Mode, UNFIT};
use crate::redis::link::{Common, Ears, Link};
use crate::redis::lock;
use crate::redis::way::{Access, Way};
use crate::redlock::quorum;

/// All nodes of a session.
pub(super) struct Nodes {
    pub(super) label: String,
    pub(super) uses_tokens: bool,
    pub(super) all: Vec<Node>,
    pub(super) scripts: Scripts,
    pub(super) guess: Guess,
    /// Rung when a node said that it is in quarantine.
    pub(super) to_settle: Notify,
    /// The connections that are known to lead to different servers.
    different: Mutex<Vec<u64>>,
}

/// One node: a Redis server of its own.
pub(super) struct Node {
    pub(super) number: usize,
    pub(super) link: Arc<Link>,
    pub(super) owed: Owed,
    /// Requests that nobody waits for any more.
    pub(super) leftovers: Leftovers,
    /// Rung when the server did not know a script.
    pub(super) lacks_scripts: Notify,
    /// How many nodes there are. The same servers in lists of different lengths
    /// have majorities that do not meet.
    size: usize,
    common: Arc<Common>,
}

/// A script and what it is given, except for what each node is given itself.
pub(super) struct Call<'a> {
    pub(super) script: &'a Script,
    pub(super) keys: &'a [&'a str],
    pub(super) arguments: &'a [&'a str],
}

impl Call<'_> {
    /// As that node is sent it, if the connection leads to that server.
    pub(super) fn command(&self, node: &Node, server: &str) -> Cmd {
        let mut command = Cmd::new();
        command.arg("EVALSHA").arg(self.script.get_hash());
        command.arg(self.keys.len()).arg(self.keys);
        for argument in self.arguments {
            match *argument {
                RUN => command.arg(node.mark(server)),
                argument => command.arg(argument),
            };
        }
        command
    }
}

impl Nodes {
    /// The nodes, not yet connected. Each may have ears of its own.
    pub(super) fn new(
        config: &RedlockConfig,
        ears: impl Fn(usize) -> Arc<dyn Ears>,
        greeting: &'static [&'static [&'static str]],
    ) -> Result<Self> {
        let nodes = config.nodes.iter().enumerate();
        let size = config.nodes.len();
        let nodes =
            nodes.map(|(number, node)| Node::new(number, size, node, ears(number), greeting));
        Ok(Self {
            label: config.label(),
            uses_tokens: config.tokens,
            all: nodes.collect::<Result<_>>()?,
            scripts: Scripts::new(),
            guess: Guess::default(),
            to_settle: Notify::new(),
            different: Mutex::default(),
        })
    }

    /// Connects to all nodes. Those that are away are tried again later, if
    /// the others are a majority; one that is no node for us is an error.
    pub(super) async fn connect(&self) -> Result<()> {
        let nodes = self;
        let connecting = nodes.all.iter().map(|node| node.link.connect());
        let mut away = None;
        let mut connected = 0;
        for (node, result) in nodes.all.iter().zip(join_all(connecting).await) {
            match result {
                Ok(()) => connected += 1,
                Err(error) if is_no_node(&error) => return Err(node.is_none(error)),
                Err(error) => {
                    let error = node.wrong(error, "connect");
                    // It would be missing for good, and nobody would know.
                    if error.kind() == ErrorKind::Denied {
                        return Err(error);
                    }
                    away = away.or(Some(error));
                }
            }
        }
        nodes.check_different()?;
        match away {
            Some(error) if connected < nodes.majority() => Err(nodes.too_few(connected, &error)),
            _ => Ok(()),
        }
    }

    /// The connection that a request to each node would go over now.
    pub(super) fn lines(&self) -> Vec<Option<u64>> {
        let lines = self.all.iter().map(|node| node.link.line_number());
        lines.map(Some).collect()
    }

    pub(super) fn majority(&self) -> usize {
        quorum::majority(self.all.len())
    }

    fn too_few(&self, connected: usize, error: &Error) -> Error {
        let why = format!(
            "{connected} of {} nodes answer and {} are needed: {error}",
            self.all.len(),
            self.majority()
        );
        Error::new(error.kind(), "connect", why).on(&*self.label)
    }

    /// The same server under two names would vote twice.
    fn check_different(&self) -> Result<()> {
        for node in &self.all {
            if let Some(twin) = self.twin_of(node) {
                let (one, other) = (&twin.link.label, &node.link.label);
                let why = format!("{one} and {other} are the same server: name each node once");
                return Err(Error::new(ErrorKind::Config, "connect", why).on(&*self.label));
            }
        }
        Ok(())
    }

    /// A node before this one that is the same server. What was found is good as
    /// long as no connection is a new one.
    pub(super) fn twin_of(&self, node: &Node) -> Option<&Node> {
        let lines = || self.all.iter().map(|node| node.link.line_number());
        if lock(&self.different).iter().copied().eq(lines()) {
            return None;
        }
        let lines: Vec<_> = lines().collect();
        let is_different = |node: &Node| {
            node.link.current_server().is_some() && self.look_for_twin(node).is_none()
        };
        if self.all.iter().all(is_different) {
            *lock(&self.different) = lines;
        }
        self.look_for_twin(node)
    }

    fn look_for_twin(&self, node: &Node) -> Option<&Node> {
        let run = node.link.current_server()?;
        let before = self.all.iter().take(node.number);
        before
            .into_iter()
            .find(|other| other.link.current_server().as_ref() == Some(&run))
    }

    /// Asks these nodes at once; the answers come as they arrive.
    pub(super) fn ask<'a, T, F>(
        &'a self,
        nodes: impl IntoIterator<Item = usize>,
        act: impl Fn(&'a Node) -> F,
    ) -> FuturesUnordered<impl Future<Output = (usize, T)>>
    where
        F: Future<Output = T>,
    {
        let nodes = nodes.into_iter().filter_map(|number| self.all.get(number));
        nodes
            .map(|node| {
                let acting = act(node);
                async move { (node.number, acting.await) }
            })
            .collect()
    }

    /// Asks all nodes at once and waits for each as long as the limit.
    pub(super) async fn ask_all<'a, T, F>(
        &'a self,
        limit: Duration,
        act: impl Fn(&'a Node) -> F,
    ) -> Vec<Result<T, RedisError>>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let asking = self.all.iter().map(|node| {
            let acting = act(node);
            async move {
                let answer = tokio::time::timeout(limit, acting).await;
                answer.unwrap_or_else(|_| Err(silent()))
            }
        });
        join_all(asking).await
    }

    /// Learns the clocks of the nodes; an error if no majority tells. The others
    /// are learned when they answer next.
    pub(super) async fn learn_times(&self, limit: Duration) -> Result<()> {
        let mut answers = self.ask(0..self.all.len(), |node| {
            let link = node.link.clone();
            async move {
                let (seconds, micros): (u64, u64) = link.ask(&::redis::cmd("TIME")).await?;
                link.learn_time(seconds * 1000 + micros / 1000);
                Ok(())
            }
        });
        let limit = tokio::time::sleep(limit);
        tokio::pin!(limit);
        let (mut learned, mut error) = (0, None);
        while learned < self.majority() {
            let (number, answer): (_, Result<(), RedisError>) = tokio::select! {
                biased;
                Some(answer) = answers.next() => answer,
                () = &mut limit => break,
                else => break,
            };
            match answer {
                Ok(()) => learned += 1,
                Err(why) => error = Some(self.all[number].wrong(why, "reach the nodes")),
            }
        }
        if learned >= self.majority() {
            return Ok(());
        }
        let none = || fault(silent(), "reach the nodes".into(), &self.label);
        Err(self.too_few(learned, &error.unwrap_or_else(none)))
    }

    /// Teaches all nodes the scripts. What is missing later is taught then.
    pub(super) async fn load_scripts(&self, limit: Duration) {
        self.ask_all(limit, |node| node.load(&self.scripts)).await;
    }

    /// Listens to a channel on every node, also on those that come back later.
    pub(super) async fn subscribe(&self, channel: &str, limit: Duration) {
        for node in &self.all {
            lock(&node.common.channels).push(channel.to_owned());
        }
        self.ask_all(limit, |node| node.link.subscribe(channel))
            .await;
    }

    pub(super) async fn unsubscribe(&self, channel: &str, limit: Duration) {
        for node in &self.all {
            lock(&node.common.channels).retain(|other| other != channel);
        }
        self.ask_all(limit, |node| node.link.unsubscribe(channel))
            .await;
    }
}

/// Whether the server can never be a node of ours: it is too old, of another
/// kind, or a replica, which is no node of its own.
fn is_no_node(error: &RedisError) -> bool {
    error.code() == Some(UNFIT) || error.to_string().contains("replica")
}

/// The error of a node that did not answer in time.
pub(super) fn silent() -> RedisError {
    let error = std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time");
    RedisError::from(error)
}

impl Node {
    fn new(
        number: usize,
        size: usize,
        config: &RedisConfig,
        ears: Arc<dyn Ears>,
        greeting: &'static [&'static [&'static str]],
    ) -> Result<Self> {
        let common = Arc::new(Common {
            access: Access::new(config)?,
            mode: Mode::Single,
            ears,
            greeting,
            channels: Mutex::default(),
        });
        let label = config.label();
        let no_way = || Error::new(ErrorKind::Config, "connect", "no single server").on(&*label);
        let way = Way::of(&config.place).ok_or_else(no_way)?;
        let link = Link::new(number, way, label.clone(), common.clone());
        Ok(Self {
            number,
            link,
            owed: Owed::default(),
            leftovers: Leftovers::default(),
            lacks_scripts: Notify::new(),
            size,
            common,
        })
    }

    /// Teaches the server the scripts, so that a lock is on this node too when
    /// the others answered first: who is not waited for is not asked again.
    pub(super) async fn load(&self, scripts: &Scripts) -> Result<(), RedisError> {
        let loading = scripts.of_sessions().map(|script| self.link.load(script));
        join_all(loading).await.into_iter().collect()
    }

    /// Runs a script. It may name the server that runs it: the connection leads
    /// to that one and no other, whatever takes its place later.
    pub(super) async fn run<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, RedisError> {
        let make = |node: &Self, server: &str| call.command(node, server);
        Ok(::redis::from_redis_value(
            self.ask_for(call.script, &make).await?,
        )?)
    }

    /// As `run`, with a command that is made for it.
    pub(super) async fn ask_for(
        &self,
        script: &Script,
        make: &Make<'_>,
    ) -> Result<Value, RedisError> {
        let answer = self.link.ask_naming(|server| make(self, server)).await;
        match &answer {
            Err(error) if lacks_script(error) => {
                self.lacks_scripts.notify_one();
                self.teach_and_ask(script, make).await
            }
            _ => answer,
        }
    }

    /// As `ask_for`, of a server that does not know the script yet.
    pub(super) async fn teach_and_ask(
        &self,
        script: &Script,
        make: &Make<'_>,
    ) -> Result<Value, RedisError> {
        self.link.load(script).await?;
        self.link.ask_naming(|server| make(self, server)).await
    }

    /// What the node has in memory if this server is admitted.
    pub(super) fn mark(&self, run: &str) -> String {
        format!("{run}/{}", self.size)
    }

    /// The server can be no node, which only another URL can change.
    fn is_none(&self, error: RedisError) -> Error {
        let why = self.wrong(error, "connect").why().to_owned();
        Error::new(ErrorKind::Config, "connect", why).on(&*self.link.label)
    }

    pub(super) fn wrong(&self, error: RedisError, doing: &str) -> Error {
        fault(error, doing.into(), &self.link.label)
    }
}

/// Stands for the mark of whichever server gets it.
pub(super) const RUN: &str = "\0run";

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nodes").field(&self.label).finish()
    }
}
