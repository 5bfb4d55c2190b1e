//! A session of ZooKeeper's: it lives on the servers, and moves from one to the
//! next when a connection ends.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex as Turn;

use super::config::ZookeeperConfig;
use super::events::Events;
use super::fault::Refusal;
use super::link::Link;
use super::wire::{self, AUTH_XID, Pass, Reply, Request, Welcome};
use super::{lock, words};
use crate::clock::{Moment, boot_time};
use crate::random::random_u64;

/// How long an answer may take, at least and at most.
const SHORTEST: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_secs(2);
/// The part of its timeout after which a session gives up on a server that it
/// moves to. A renewal, which is given up after a sixth of the lease, has time
/// for more than one.
const MOVES: u32 = 12;

pub(super) type Answered = Vec<Result<Reply, Refusal>>;

pub(super) struct Session {
    config: Arc<ZookeeperConfig>,
    /// What the server granted.
    pub(super) timeout: Duration,
    /// How long an answer may take before another server is tried.
    pub(super) patience: Duration,
    /// The same for the answer to a greeting.
    moving: Duration,
    pub(super) id: i64,
    password: Vec<u8>,
    pub(super) events: Arc<Events>,
    state: Mutex<State>,
    /// One at a time makes a connection.
    making: Turn<()>,
    /// The server that the next connection is tried with. It moves on before the
    /// attempt: nobody may be there to see it fail.
    next: AtomicUsize,
}

struct State {
    link: Arc<Link>,
    /// Up to where the servers have come, as far as we know.
    zxid: i64,
    is_over: bool,
    /// The leader knows that we lived then.
    proven: Moment,
}

impl Session {
    /// Starts a session.
    pub(super) async fn open(
        config: &Arc<ZookeeperConfig>,
        asked: Duration,
    ) -> Result<Self, Refusal> {
        let events = Arc::new(Events::default());
        let next = AtomicUsize::new(usize::try_from(random_u64() >> 33).unwrap_or(0));
        let made = Making {
            config,
            pass: &Pass::default(),
            timeout: asked,
            patience: LONGEST,
            zxid: 0,
            number: 1,
            events: &events,
            next: &next,
        };
        let (link, welcome, sent) = made.with_any().await?;
        let timeout = millis(welcome.timeout);
        Ok(Self {
            timeout,
            patience: (timeout / 4).clamp(SHORTEST, LONGEST),
            moving: (timeout / MOVES).clamp(SHORTEST, LONGEST),
            id: welcome.pass.session,
            password: welcome.pass.password,
            events,
            state: Mutex::new(State {
                link: Arc::new(link),
                zxid: 0,
                is_over: false,
                proven: sent,
            }),
            making: Turn::default(),
            next,
            config: config.clone(),
        })
    }

    pub(super) fn is_over(&self) -> bool {
        lock(&self.state).is_over
    }

    /// When the leader is known to have heard of us last.
    pub(super) fn proven(&self) -> Moment {
        lock(&self.state).proven
    }

    pub(super) fn prove(&self, moment: Moment) {
        let mut state = lock(&self.state);
        state.proven = state.proven.max(moment);
    }

    /// For a session that is only there for the moment.
    pub(super) fn be_patient(mut self) -> Self {
        (self.patience, self.moving) = (LONGEST, LONGEST);
        self
    }

    /// The server that it was opened with.
    pub(super) fn server(&self) -> &str {
        let servers = &self.config.servers;
        let next = self.next.load(Ordering::Acquire);
        &servers[next.wrapping_sub(1) % servers.len()]
    }

    /// Sends requests in one go and waits for all answers. An answer may be a
    /// refusal of its own; without one the connection is gone.
    pub(super) async fn ask(&self, requests: Vec<Request>) -> Result<Answered, Refusal> {
        let link = self.link().await?;
        self.ask_over(&link, requests).await
    }

    pub(super) async fn ask_one(&self, request: Request) -> Result<Reply, Refusal> {
        let answered = self.ask(vec![request]).await?;
        let gone = || Err(Refusal::Broken("the connection is gone".into()));
        answered.into_iter().next().unwrap_or_else(gone)
    }

    pub(super) async fn ask_over(
        &self,
        link: &Link,
        requests: Vec<Request>,
    ) -> Result<Answered, Refusal> {
        let answers = link.send(requests)?;
        let all = async {
            let mut answered = Vec::with_capacity(answers.len());
            for answer in answers {
                let answer = link.answer(answer).await;
                if let Err(why @ (Refusal::Broken(_) | Refusal::Moved | Refusal::Garbled)) = answer
                {
                    return Err(why);
                }
                if answer == Err(Refusal::SessionOver) {
                    self.end();
                    return Err(Refusal::SessionOver);
                }
                answered.push(answer);
            }
            Ok(answered)
        };
        match tokio::time::timeout(self.patience, all).await {
            Ok(answered) => answered,
            Err(_) => {
                let why = Refusal::Broken("the server does not answer".into());
                link.end(why.clone());
                Err(why)
            }
        }
    }

    /// The connection, made anew if it has ended.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Refusal> {
        if let Some(link) = self.living()? {
            return Ok(link);
        }
        // Whoever has the turn may not be polled for a long time; nobody waits
        // for that. If two make a connection, the servers keep the later one.
        let _turn = tokio::time::timeout(self.moving, self.making.lock()).await;
        if let Some(link) = self.living()? {
            return Ok(link);
        }
        let (zxid, number) = {
            let mut state = lock(&self.state);
            state.zxid = state.zxid.max(state.link.zxid());
            (state.zxid, state.link.number + 1)
        };
        let pass = Pass {
            session: self.id,
            password: self.password.clone(),
        };
        let made = Making {
            config: &self.config,
            pass: &pass,
            timeout: self.timeout,
            patience: self.moving,
            zxid,
            number,
            events: &self.events,
            next: &self.next,
        };
        match made.with_any().await {
            // A server that does not know the session may give us a new one.
            // Our claims are not on it.
            Ok((_, welcome, ..)) if welcome.pass.session != self.id => {
                self.end();
                Err(Refusal::SessionOver)
            }
            // It would end sooner than our holders count on, and the leader has
            // been told so already: to try another server comes too late.
            Ok((_, welcome, ..)) if millis(welcome.timeout) < self.timeout => {
                self.end();
                Err(Refusal::SessionOver)
            }
            Ok((link, _, sent)) => {
                let link = Arc::new(link);
                let mut state = lock(&self.state);
                state.link = link.clone();
                // A session moves by the leader's leave.
                state.proven = state.proven.max(sent);
                drop(state);
                self.events.ring_all();
                Ok(link)
            }
            Err(Refusal::SessionOver) => {
                self.end();
                Err(Refusal::SessionOver)
            }
            Err(why) => Err(why),
        }
    }

    /// The connection as it is, dead or alive.
    pub(super) fn current(&self) -> Arc<Link> {
        lock(&self.state).link.clone()
    }

    /// The session is over, here and on the servers.
    pub(super) fn end(&self) {
        let link = {
            let mut state = lock(&self.state);
            state.is_over = true;
            state.link.clone()
        };
        link.end(Refusal::SessionOver);
    }

    fn living(&self) -> Result<Option<Arc<Link>>, Refusal> {
        let state = lock(&self.state);
        if state.is_over {
            return Err(Refusal::SessionOver);
        }
        Ok(state.link.is_alive().then(|| state.link.clone()))
    }
}

/// A connection to be made.
struct Making<'a> {
    config: &'a ZookeeperConfig,
    pass: &'a Pass,
    timeout: Duration,
    patience: Duration,
    zxid: i64,
    number: u64,
    events: &'a Arc<Events>,
    next: &'a AtomicUsize,
}

impl Making<'_> {
    /// Tries one server after the other.
    async fn with_any(&self) -> Result<(Link, Welcome, Moment), Refusal> {
        let servers = &self.config.servers;
        let mut why = Refusal::Unreachable("no server is named".into());
        for _ in servers {
            let at = self.next.fetch_add(1, Ordering::AcqRel) % servers.len();
            let sent = boot_time();
            let met = tokio::time::timeout(self.patience, self.with(&servers[at]));
            match met.await {
                Ok(Ok((link, welcome))) => return Ok((link, welcome, sent)),
                Ok(Err(over @ (Refusal::SessionOver | Refusal::NotAllowed))) => return Err(over),
                Ok(Err(other)) => why = worse(why, other),
                Err(_) => {
                    let silent = format!("{} does not answer", servers[at]);
                    why = worse(why, Refusal::Unreachable(silent));
                }
            }
        }
        Err(why)
    }

    async fn with(&self, server: &str) -> Result<(Link, Welcome), Refusal> {
        let unreachable = |error: io::Error| Refusal::Unreachable(format!("{server}: {error}"));
        let mut stream = TcpStream::connect(server).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let timeout = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
        let mut greeting = wire::greeting(self.pass, timeout, self.zxid);
        if let Some(user) = &self.config.user {
            let user = user.0.clone();
            greeting.extend(Request::Auth { user }.frame(AUTH_XID));
        }
        stream.write_all(&greeting).await.map_err(unreachable)?;
        let mut received = Vec::new();
        let welcome = loop {
            if let Some(frame) = wire::first_frame(&received)? {
                let (welcome, length) = (wire::read_welcome(frame)?, frame.len());
                received.drain(..4 + length);
                break welcome;
            }
            let count = stream.read_buf(&mut received).await;
            if count.map_err(unreachable)? == 0 {
                return Err(words::why_closed(server).await);
            }
        };
        if welcome.timeout <= 0 || welcome.pass.session == 0 {
            return Err(Refusal::SessionOver);
        }
        let timeout = millis(welcome.timeout);
        let link = Link::new(stream, received, self.events.clone(), self.number, timeout);
        Ok((link, welcome))
    }
}

/// Which of two reasons says more.
fn worse(one: Refusal, other: Refusal) -> Refusal {
    match (&one, &other) {
        (Refusal::Garbled, _) => one,
        _ => other,
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

fn millis(number: i32) -> Duration {
    Duration::from_millis(u64::from(number.unsigned_abs()))
}
