//! One connection to one server, made anew whenever it was lost.
//!
//! Requests and messages share it, and messages arrive in order with replies.
//! So a message to ourselves that comes back proves that no earlier one was
//! missed; and a connection that was lost tells everyone to look for themselves.

mod making;
mod patience;
mod proof;
mod sending;

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, FromRedisValue, Msg, PushInfo, PushKind, RedisError};
use ::redis::{ErrorKind as RedisKind, Script, ServerErrorKind, Value};

use self::making::Making;
use self::patience::Patience;
use self::proof::{ALIVE, Proof};
pub(super) use self::sending::Posted;
use super::fit::Mode;
use super::place::Host;
use super::way::{Access, Way};
use super::{lock, whole_millis};
use crate::clock::{Moment, boot_time};

/// How many requests a connection takes in at once: so many that none ever has to
/// wait for that, and they are sent in the order in which they are made.
const ROOM: usize = 100_000;

/// What a layout does with what its connections tell it. Called by the
/// connection's own task, in order: what came before a reply is told before it.
pub(super) trait Ears: fmt::Debug + Send + Sync + 'static {
    /// A message came on a channel.
    fn hear(&self, channel: &str, message: &[u8]);

    /// Keys that were read changed; all of them if `None`.
    fn changed(&self, _keys: Option<Vec<String>>) {}

    /// Messages may have been missed, and the server may be another one.
    fn missed(&self);
}

/// What the links of a session have in common.
pub(super) struct Common {
    pub(super) access: Access,
    pub(super) mode: Mode,
    pub(super) ears: Arc<dyn Ears>,
    /// What a new connection is told first.
    pub(super) greeting: &'static [&'static [&'static str]],
    /// What a new connection subscribes to.
    pub(super) channels: Mutex<Vec<String>>,
}

/// A connection to a server.
pub(super) struct Link {
    /// Different for each link of a session.
    number: usize,
    way: Way,
    pub(super) label: String,
    common: Arc<Common>,
    line: Mutex<Line>,
    proof: Mutex<Proof>,
    /// The server did what the greeting asked for.
    is_greeted: AtomicBool,
    /// The server's clock in milliseconds, and when we learned it.
    time: Mutex<Option<(u64, Moment)>>,
    goal: Mutex<Goal>,
    /// The master, as a Sentinel just told; the next connection goes there.
    told: Mutex<Option<Host>>,
    /// When anything came from the server, in nanoseconds of the boot clock.
    heard: AtomicU64,
    this: Weak<Self>,
}

/// The connection as it is now. Each attempt to make one has a number.
#[derive(Default)]
struct Line {
    number: u64,
    connection: Option<MultiplexedConnection>,
    /// While it is being made.
    making: Option<Making>,
}

/// Where the last connection leads to, with the number of the attempt.
#[derive(Default)]
struct Goal {
    number: u64,
    server: Option<String>,
    host: Option<Host>,
}

impl Link {
    pub(super) fn new(number: usize, way: Way, label: String, common: Arc<Common>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            number,
            way,
            label,
            common,
            line: Mutex::default(),
            proof: Mutex::default(),
            is_greeted: AtomicBool::new(true),
            time: Mutex::default(),
            goal: Mutex::default(),
            told: Mutex::default(),
            heard: AtomicU64::new(0),
            this: this.clone(),
        })
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RedisError> {
        Ok(self.ask_noting(command).await?.0)
    }

    /// As `ask`; also says which connection the answer came on.
    pub(super) async fn ask_noting<T: FromRedisValue>(
        &self,
        command: &Cmd,
    ) -> Result<(T, u64), RedisError> {
        let (number, mut connection) = self.connection().await?;
        let patience = Patience::new(self, number);
        let answer = command.query_async(&mut connection).await;
        patience.ends();
        Ok((self.judge(number, answer)?, number))
    }

    /// As `ask`, with a command that may name the server it goes to: it goes to
    /// that one and no other, whatever takes its place later.
    pub(super) async fn ask_naming<T: FromRedisValue>(
        &self,
        command: impl FnOnce(&str) -> Cmd,
    ) -> Result<T, RedisError> {
        let (number, mut connection) = self.connection().await?;
        let Some(server) = self.server(number) else {
            self.end(number);
            let kind = RedisKind::Io;
            return Err((kind, "it is not known which server this is").into());
        };
        let command = command(&server);
        let patience = Patience::new(self, number);
        let answer = command.query_async(&mut connection).await;
        patience.ends();
        self.judge(number, answer)
    }

    /// As `ask_noting`, of a node that is just being given what is asked about.
    pub(super) async fn ask_anyway<T: FromRedisValue>(
        &self,
        command: &Cmd,
    ) -> Result<(T, u64), RedisError> {
        self.ask_after(&::redis::cmd("ASKING"), command).await
    }

    /// Sends both, one directly behind the other, and waits for the answer to
    /// the second. Also says which connection it came on.
    pub(super) async fn ask_after<T: FromRedisValue>(
        &self,
        first: &Cmd,
        second: &Cmd,
    ) -> Result<(T, u64), RedisError> {
        let (number, mut connection) = self.connection().await?;
        let mut pipeline = ::redis::pipe();
        pipeline.add_command(first.clone()).ignore();
        pipeline.add_command(second.clone());
        let patience = Patience::new(self, number);
        let answer: Result<(Value,), _> = pipeline.query_async(&mut connection).await;
        patience.ends();
        let answer = answer.and_then(|(value,)| Ok(::redis::from_redis_value(value)?));
        Ok((self.judge(number, answer)?, number))
    }

    /// Teaches the server a script.
    pub(super) async fn load(&self, script: &Script) -> Result<(), RedisError> {
        let (number, mut connection) = self.connection().await?;
        let answer = script.load_async(&mut connection).await;
        self.judge(number, answer).map(|_| ())
    }

    /// Another connection to the same server.
    pub(super) fn beside(&self, common: Arc<Common>) -> Arc<Self> {
        Self::new(self.number, self.way.clone(), self.label.clone(), common)
    }

    /// The server's address, if it is a fixed one.
    pub(super) fn host(&self) -> Option<&Host> {
        self.way.host()
    }

    /// A Sentinel saw another server become the master. A connection that leads
    /// elsewhere is not used again, though the server there may not know yet.
    pub(super) fn follow(&self, master: &Host) {
        // One that is just being made may lead to where there is no master any more,
        // and take long to find out. Those that begin later know where to go.
        let trying = {
            let line = lock(&self.line);
            line.making.as_ref().map(|_| line.number)
        };
        // Before the look: whoever is just connecting sees one or the other.
        *lock(&self.told) = Some(master.clone());
        if !self.doubt(master) {
            *lock(&self.told) = None;
            return;
        }
        let is_trying_still = {
            let line = lock(&self.line);
            line.making.is_some() && Some(line.number) == trying
        };
        if let Some(number) = trying.filter(|_| is_trying_still) {
            // That one may have used it up.
            *lock(&self.told) = Some(master.clone());
            self.end(number);
        }
    }

    /// A Sentinel takes that server for the master. A connection that leads
    /// elsewhere is not used again; says whether it does.
    pub(super) fn doubt(&self, master: &Host) -> bool {
        let goal = lock(&self.goal);
        if goal.host.as_ref() == Some(master) {
            return false;
        }
        let number = goal.number;
        drop(goal);
        self.end(number);
        true
    }

    /// Which server the connection of that number leads to, if it is in use.
    pub(super) fn server(&self, number: u64) -> Option<String> {
        let goal = lock(&self.goal);
        goal.server.clone().filter(|_| goal.number == number)
    }

    /// The number of the connection that a request would go over now.
    pub(super) fn line_number(&self) -> u64 {
        lock(&self.line).number
    }

    /// Which server the connection leads to, if there is one.
    pub(super) fn current_server(&self) -> Option<String> {
        let number = {
            let line = lock(&self.line);
            line.connection.is_some().then_some(line.number)?
        };
        self.server(number)
    }

    /// Connects unless there is a connection.
    pub(super) async fn connect(&self) -> Result<(), RedisError> {
        self.connection().await.map(|_| ())
    }

    /// Whether there was a connection and is none now.
    pub(super) fn is_lost(&self) -> bool {
        let line = lock(&self.line);
        line.number > 0 && line.connection.is_none()
    }

    /// Whether the server did what the greeting asked for.
    pub(super) fn is_greeted(&self) -> bool {
        self.is_greeted.load(Relaxed)
    }

    /// A connection that failed, did not answer or leads to a server that is no
    /// master any more is not used again.
    fn judge<T>(&self, number: u64, answer: Result<T, RedisError>) -> Result<T, RedisError> {
        if let Err(error) = &answer {
            let is_over = error.is_unrecoverable_error() || error.is_timeout();
            let is_replica = error.kind() == RedisKind::Server(ServerErrorKind::ReadOnly)
                || error.to_string().contains("READONLY");
            if is_over || is_replica {
                self.end(number);
            }
        }
        answer
    }

    /// The connection of that number is not used again.
    pub(super) fn end(&self, number: u64) {
        let mut line = lock(&self.line);
        if line.number != number {
            return;
        }
        *line = Line {
            number: number + 1,
            ..Line::default()
        };
        drop(line);
        *lock(&self.proof) = Proof::default();
        self.common.ears.missed();
    }

    fn take_in(&self, number: u64, push: PushInfo) {
        if lock(&self.line).number != number {
            return;
        }
        self.heard.store(boot_time().nanos(), Relaxed);
        match push.kind {
            PushKind::Disconnection => self.end(number),
            PushKind::Message => {
                if let Some(message) = Msg::from_push_info(push) {
                    self.hear(message.get_channel_name(), message.get_payload_bytes());
                }
            }
            PushKind::Invalidate => {
                let keys = push.data.into_iter().next();
                // Nil means all keys, and would be read as no keys.
                let keys = keys.map(::redis::from_redis_value::<Option<_>>);
                let keys = keys.and_then(|keys| keys.ok().flatten());
                self.common.ears.changed(keys);
            }
            _ => {}
        }
    }

    fn hear(&self, channel: &str, message: &[u8]) {
        let Some(sent) = message.strip_prefix(ALIVE.as_bytes()) else {
            return self.common.ears.hear(channel, message);
        };
        self.hear_ourselves(sent);
    }

    pub(super) async fn subscribe(&self, channel: &str) -> Result<(), RedisError> {
        let (number, mut connection) = self.connection().await?;
        let answer = connection.subscribe(channel).await;
        self.judge(number, answer)
    }

    pub(super) async fn unsubscribe(&self, channel: &str) -> Result<(), RedisError> {
        let (number, mut connection) = self.connection().await?;
        let answer = connection.unsubscribe(channel).await;
        self.judge(number, answer)
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

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.label).finish()
    }
}
