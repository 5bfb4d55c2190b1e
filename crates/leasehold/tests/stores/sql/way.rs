//! A way to the server that sees every request and loses the one, or the one
//! answer, that a test names.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::steps::LONG;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not reach the server, and the connection ends.
    RequestLost,
    /// The server does it, the answer does not arrive, and the connection ends.
    AnswerLost,
    /// The server does it, but nothing arrives any more; the connection stays.
    Silence,
    /// It reaches the server only when the test lets it go.
    HeldBack,
    /// The server does it, and the answer arrives when the test lets it go.
    AnswerHeldBack,
}

/// Those that every request may meet.
pub(crate) const FAULTS: [Fault; 3] = [Fault::RequestLost, Fault::AnswerLost, Fault::Silence];

/// A running way. It ends when it is dropped.
pub(crate) struct Way {
    pub(crate) port: u16,
    url: String,
    state: Arc<State>,
    _links: JoinSet<()>,
}

#[derive(Default)]
struct State {
    /// Where it leads to.
    server: AtomicU16,
    armed: Mutex<Option<(String, Fault)>>,
    is_silent: AtomicBool,
    seen: Notify,
    fired: Notify,
    released: Notify,
}

impl Way {
    /// To the only server that the URL names.
    pub(crate) async fn to(url: &str) -> Self {
        let (user, place) = url.split_once("@127.0.0.1:").unwrap();
        let (server, database) = place.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        state
            .server
            .store(server.parse().unwrap(), Ordering::Relaxed);
        let mut links = JoinSet::new();
        links.spawn(serve(listener, url.starts_with("postgres"), state.clone()));
        Self {
            port,
            url: format!("{user}@127.0.0.1:{port}/{database}"),
            state,
            _links: links,
        }
    }

    /// New connections are to another server.
    pub(crate) fn leads_to(&self, server: u16) {
        self.state.server.store(server, Ordering::Relaxed);
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// The fault happens once, to the next request that has this text in it, or to the next
    /// use of a statement that has it and that the server keeps.
    pub(crate) fn arm(&self, text: &str, fault: Fault) {
        *self.state.armed.lock().unwrap() = Some((text.to_owned(), fault));
    }

    /// Waits until the request has come, whatever the server has made of it.
    pub(crate) async fn seen(&self) {
        let seen = async {
            while self.state.armed.lock().unwrap().is_some() {
                self.state.seen.notified().await;
            }
        };
        timeout(LONG, seen).await.unwrap();
    }

    /// Waits until it has happened; of a request that is held back, that it is, and after
    /// it was let go, that the server has done it.
    pub(crate) async fn fired(&self) {
        timeout(LONG, self.state.fired.notified()).await.unwrap();
    }

    /// Nothing arrives any more, either way, nor is a connection closed: as if
    /// the machine were gone.
    pub(crate) fn fall_silent(&self) {
        self.state.is_silent.store(true, Ordering::Release);
    }

    /// Lets go what is held back.
    pub(crate) fn release(&self) {
        self.state.released.notify_one();
    }
}

async fn serve(listener: TcpListener, is_postgres: bool, state: Arc<State>) {
    let mut links = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let server = state.server.load(Ordering::Relaxed);
        if let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await {
            let (state, talk) = (state.clone(), Talk::new(is_postgres));
            links.spawn(async move {
                // However it ends, both connections do.
                let _ = carry(client, server, talk, &state).await;
            });
        }
    }
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    mut talk: Talk,
    state: &State,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    let mut fault = None;
    loop {
        tokio::select! {
            count = client.read_buf(&mut requests) => {
                if count? == 0 {
                    return Ok(());
                }
                state.pass().await;
                while let Some(end) = talk.length(&requests) {
                    let message: Vec<u8> = requests.drain(..end).collect();
                    fault = fault.or(state.judge(talk.statement(&message)));
                    if fault == Some(Fault::HeldBack) {
                        state.fired.notify_one();
                        state.released.notified().await;
                        server.write_all(&message).await?;
                        talk.wait_until_done(&mut server, &mut answers).await?;
                    }
                    if matches!(fault, Some(Fault::RequestLost | Fault::HeldBack)) {
                        state.fired.notify_one();
                        return Ok(());
                    }
                    server.write_all(&message).await?;
                }
            }
            count = server.read_buf(&mut answers) => {
                state.pass().await;
                if count? == 0 {
                    return Ok(());
                }
                if !talk.hears(&answers) {
                    continue;
                }
                if let Some(fault) = fault.take() {
                    talk.wait_until_done(&mut server, &mut answers).await?;
                    state.fired.notify_one();
                    match fault {
                        Fault::AnswerHeldBack => state.released.notified().await,
                        Fault::Silence => return silence(client, server).await,
                        _ => return Ok(()),
                    }
                }
                client.write_all(&answers).await?;
                answers.clear();
            }
        }
    }
}

/// Nothing more comes, but the connection stays until one side ends it.
async fn silence(mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
    let (mut one, mut other) = (tokio::io::sink(), tokio::io::sink());
    tokio::select! {
        ended = tokio::io::copy(&mut client, &mut one) => ended?,
        ended = tokio::io::copy(&mut server, &mut other) => ended?,
    };
    Ok(())
}

impl State {
    /// Does not end once all is silent.
    async fn pass(&self) {
        if self.is_silent.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }

    fn judge(&self, statement: Option<&[u8]>) -> Option<Fault> {
        let mut armed = self.armed.lock().unwrap();
        let (text, fault) = armed.as_ref()?;
        let fault = *fault;
        let mut parts = statement?.windows(text.len());
        parts.any(|part| part == text.as_bytes()).then(|| {
            *armed = None;
            self.seen.notify_one();
            fault
        })
    }
}

/// What two sides say to each other over one connection.
enum Talk {
    /// The first message has no kind before its length; none of ours is lost.
    Postgres {
        is_first: bool,
    },
    Mysql(Kept),
}

/// The statements that a MySQL server keeps for one connection.
#[derive(Default)]
struct Kept {
    /// By the number that the server gave them.
    statements: HashMap<[u8; 4], Vec<u8>>,
    /// One that has no number yet.
    new: Option<Vec<u8>>,
}

impl Talk {
    fn new(is_postgres: bool) -> Self {
        match is_postgres {
            true => Self::Postgres { is_first: true },
            false => Self::Mysql(Kept::default()),
        }
    }

    /// How long the first message is, if it is there as a whole.
    fn length(&self, bytes: &[u8]) -> Option<usize> {
        let length = match self {
            Self::Postgres { is_first } => {
                let kind = usize::from(!is_first);
                let length = bytes.get(kind..kind + 4)?.try_into().unwrap();
                u32::from_be_bytes(length) as usize + kind
            }
            Self::Mysql(_) => {
                let head = bytes.get(..4)?;
                u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize + 4
            }
        };
        (bytes.len() >= length).then_some(length)
    }

    /// What the server is to carry out, if that is what the message is about.
    fn statement<'a>(&'a mut self, message: &'a [u8]) -> Option<&'a [u8]> {
        let kept = match self {
            Self::Postgres { is_first } => {
                let was_first = std::mem::take(is_first);
                return Some(message).filter(|message| !was_first && message[0] == b'Q');
            }
            Self::Mysql(kept) => kept,
        };
        match message.get(4)? {
            3 => Some(message),
            0x16 => {
                kept.new = Some(message.to_owned());
                None
            }
            0x17 => {
                let number = message.get(5..9)?.try_into().unwrap();
                kept.statements.get::<[u8; 4]>(&number).map(Vec::as_slice)
            }
            _ => None,
        }
    }

    /// Learns the number of a new statement. Says whether these bytes are enough for that.
    fn hears(&mut self, answers: &[u8]) -> bool {
        let Self::Mysql(kept) = self else {
            return true;
        };
        if kept.new.is_some() && answers.len() < 9 {
            return false;
        }
        if let Some(statement) = kept.new.take()
            && answers[4] == 0
        {
            let number = answers[5..9].try_into().unwrap();
            kept.statements.insert(number, statement);
        }
        true
    }

    /// Reads until the server has done all that it was sent.
    async fn wait_until_done(
        &self,
        server: &mut TcpStream,
        answers: &mut Vec<u8>,
    ) -> io::Result<()> {
        // MySQL is asked for a sign of life, whose answer is an OK that stands alone with
        // the number 1. One that was there before is the answer to something else.
        const PONG: [u8; 7] = [7, 0, 0, 1, 0, 0, 0];
        let asked = answers.len();
        if let Self::Mysql(_) = self {
            server.write_all(&[1, 0, 0, 0, 14]).await?;
        }
        loop {
            match self {
                Self::Postgres { .. } if self.is_ready(answers) => return Ok(()),
                Self::Mysql(_) if answers.len() >= asked + 11 => {
                    let rest = answers.len() - 11;
                    if answers[rest..].starts_with(&PONG) {
                        answers.truncate(rest);
                        return Ok(());
                    }
                }
                _ => {}
            }
            if server.read_buf(answers).await? == 0 {
                return Ok(());
            }
        }
    }

    /// Whether a PostgreSQL server is ready for the next request.
    fn is_ready(&self, mut answers: &[u8]) -> bool {
        while let Some(end) = self.length(answers) {
            if answers[0] == b'Z' {
                return true;
            }
            answers = &answers[end..];
        }
        false
    }
}
