//! A TCP proxy between a client and a Redis server which sees every request
//! and loses the one, or the one reply, that a test names.

pub mod frames;
mod link;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request, as the proxy saw it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// The command, in capitals.
    pub command: String,
    /// What kind of that command: the digest of a script, or a subcommand.
    pub kind: Option<String>,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not reach the server, and the connection ends.
    RequestLost,
    /// The server does it, the reply does not arrive, and the connection ends.
    ReplyLost,
    /// The server does it, but neither its reply nor any later one arrives;
    /// the connection stays.
    Silence,
    /// It reaches the server so much later, and so do those behind it.
    Delay(Duration),
}

/// A running proxy. It ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _links: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    log: Vec<Request>,
    armed: Option<Armed>,
    has_fired: bool,
    /// What happens to every request that is not the armed one.
    always: Option<Fault>,
}

#[derive(Debug)]
struct Armed {
    request: Request,
    /// How many requests like it pass first.
    passes: usize,
    fault: Fault,
}

impl Proxy {
    /// Starts one in front of the server on that port of 127.0.0.1.
    pub async fn start(server: u16) -> Self {
        Self::start_on(0, server).await
    }

    /// Starts one on this port, such as that of a server which is gone.
    pub async fn start_on(port: u16, server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.expect("the port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let shared = Arc::new(Shared::default());
        let mut links = JoinSet::new();
        links.spawn(serve(listener, server, shared.clone()));
        Self {
            port,
            shared,
            _links: links,
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The requests that came so far, in their order.
    pub fn log(&self) -> Vec<Request> {
        self.shared.state().log.clone()
    }

    /// The fault happens once, to the next request like this after so many
    /// like it.
    pub fn arm(&self, request: Request, passes: usize, fault: Fault) {
        let mut state = self.shared.state();
        state.has_fired = false;
        state.armed = Some(Armed {
            request,
            passes,
            fault,
        });
    }

    /// From now on this happens to every request, or nothing any more.
    pub fn always(&self, fault: Option<Fault>) {
        self.shared.state().always = fault;
    }

    /// Whether the fault has happened.
    pub fn has_fired(&self) -> bool {
        self.shared.state().has_fired
    }
}

/// Each request with the number of requests like it that came before, up to so
/// many of a kind.
pub fn targets(log: Vec<Request>, most_of_a_kind: usize) -> Vec<(Request, usize)> {
    let mut counts: BTreeMap<Request, usize> = BTreeMap::new();
    let numbered = log.into_iter().map(|request| {
        let count = counts.entry(request.clone()).or_default();
        *count += 1;
        (request, *count - 1)
    });
    numbered
        .filter(|(_, passes)| *passes < most_of_a_kind)
        .collect()
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a request and says what becomes of it.
    fn note(&self, request: Request) -> Option<Fault> {
        let mut state = self.state();
        let state = &mut *state;
        let armed = state
            .armed
            .as_mut()
            .filter(|armed| armed.request == request);
        state.log.push(request);
        let Some(armed) = armed else {
            return state.always;
        };
        if armed.passes > 0 {
            armed.passes -= 1;
            return state.always;
        }
        let fault = armed.fault;
        state.armed = None;
        state.has_fired = true;
        Some(fault)
    }
}

impl Request {
    fn read(frame: &[u8]) -> Self {
        const WITH_KIND: [&str; 6] = ["EVALSHA", "SCRIPT", "CLIENT", "CLUSTER", "CONFIG", "INFO"];
        let words = frames::words(frame);
        let mut words = words.iter().map(|word| String::from_utf8_lossy(word));
        let command = words.next().unwrap_or_default().to_uppercase();
        let kind = words.next().filter(|_| WITH_KIND.contains(&&*command));
        Self {
            command,
            kind: kind.map(std::borrow::Cow::into_owned),
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_deref().unwrap_or_default();
        let short = kind.get(..12).unwrap_or(kind);
        write!(f, "{} {short}", self.command)
    }
}

async fn serve(listener: TcpListener, server: u16, shared: Arc<Shared>) {
    let mut links = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        // Whoever connects while the server is away sees the connection end.
        if let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await {
            links.spawn(link::run(client, server, shared.clone()));
        }
    }
}
