//! A way to the server that sees every request and loses the one, or the one
//! answer, that a test names.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

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

/// A running way. It ends when it is dropped.
pub(crate) struct Way {
    pub(crate) port: u16,
    state: Arc<State>,
    _links: JoinSet<()>,
}

#[derive(Default)]
struct State {
    /// Where it leads to.
    server: AtomicU16,
    armed: Mutex<Option<(String, Fault)>>,
    fired: tokio::sync::Notify,
    released: tokio::sync::Notify,
}

impl Way {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        state.server.store(server, Ordering::Relaxed);
        let shared = state.clone();
        let mut links = JoinSet::new();
        links.spawn(async move {
            let mut links = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let server = shared.server.load(Ordering::Relaxed);
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await {
                    let shared = shared.clone();
                    links.spawn(async move {
                        // However it ends, both connections do.
                        let _ = carry(client, server, &shared).await;
                    });
                }
            }
        });
        Self {
            port,
            state,
            _links: links,
        }
    }

    /// New connections are to another server.
    pub(crate) fn leads_to(&self, server: u16) {
        self.state.server.store(server, Ordering::Relaxed);
    }

    pub(crate) fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/shop", self.port)
    }

    /// The fault happens once, to the next request that has this text in it, or to the next
    /// use of a statement that has it and that the server keeps.
    pub(crate) fn arm(&self, text: &str, fault: Fault) {
        *self.state.armed.lock().unwrap() = Some((text.to_owned(), fault));
    }

    /// Waits until it has happened.
    pub(crate) async fn fired(&self) {
        let fired = self.state.fired.notified();
        tokio::time::timeout(super::LONG, fired).await.unwrap();
    }

    /// Lets go what is held back.
    pub(crate) fn release(&self) {
        self.state.released.notify_one();
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, state: &State) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    let mut fault = None;
    let mut kept = Kept::default();
    loop {
        tokio::select! {
            count = client.read_buf(&mut requests) => {
                if count? == 0 {
                    return Ok(());
                }
                while let Some(end) = length(&requests) {
                    let message: Vec<u8> = requests.drain(..end).collect();
                    if let Some(now) = state.judge(kept.statement(&message)) {
                        fault = Some(now);
                        match now {
                            Fault::RequestLost => {
                                state.fired.notify_one();
                                return Ok(());
                            }
                            Fault::HeldBack => {
                                state.fired.notify_one();
                                state.released.notified().await;
                                server.write_all(&message).await?;
                                wait_until_done(&mut server).await?;
                                state.fired.notify_one();
                                return Ok(());
                            }
                            Fault::AnswerLost | Fault::Silence | Fault::AnswerHeldBack => {}
                        }
                    }
                    server.write_all(&message).await?;
                }
            }
            count = server.read_buf(&mut answers) => {
                if count? == 0 {
                    return Ok(());
                }
                if !kept.hears(&answers) {
                    continue;
                }
                match fault.take() {
                    None => client.write_all(&answers).await?,
                    Some(fault) => {
                        answers.extend(wait_until_done(&mut server).await?);
                        state.fired.notify_one();
                        if fault == Fault::AnswerHeldBack {
                            state.released.notified().await;
                            client.write_all(&answers).await?;
                            answers.clear();
                            continue;
                        }
                        if fault == Fault::AnswerLost {
                            return Ok(());
                        }
                        // Nothing more comes, but the connection stays.
                        while client.read_buf(&mut requests).await? > 0 {}
                        return Ok(());
                    }
                }
                answers.clear();
            }
        }
    }
}

impl State {
    fn judge(&self, statement: Option<&[u8]>) -> Option<Fault> {
        let mut armed = self.armed.lock().unwrap();
        let (text, fault) = armed.as_ref()?;
        let fault = *fault;
        let mut parts = statement?.windows(text.len());
        parts.any(|part| part == text.as_bytes()).then(|| {
            *armed = None;
            fault
        })
    }
}

/// The statements that the server keeps for one connection.
#[derive(Default)]
struct Kept {
    /// By the number that the server gave them.
    statements: HashMap<[u8; 4], Vec<u8>>,
    /// One that has no number yet.
    new: Option<Vec<u8>>,
}

impl Kept {
    /// What the server is to carry out, if that is what the message is about.
    fn statement<'a>(&'a mut self, message: &'a [u8]) -> Option<&'a [u8]> {
        match message.get(4)? {
            3 => Some(message),
            0x16 => {
                self.new = Some(message.to_owned());
                None
            }
            0x17 => {
                let number = message.get(5..9)?.try_into().unwrap();
                self.statements.get::<[u8; 4]>(&number).map(Vec::as_slice)
            }
            _ => None,
        }
    }

    /// Learns the number of a new statement. Says whether these bytes are enough for that.
    fn hears(&mut self, answers: &[u8]) -> bool {
        if self.new.is_some() && answers.len() < 9 {
            return false;
        }
        if let Some(statement) = self.new.take()
            && answers[4] == 0
        {
            let number = answers[5..9].try_into().unwrap();
            self.statements.insert(number, statement);
        }
        true
    }
}

/// Asks the server for a sign of life behind what it was sent, and reads until it
/// has given one: then it has done all before it. Gives what it read before that.
async fn wait_until_done(server: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    // A ping, whose answer is an OK that stands alone with the number 1.
    server.write_all(&[1, 0, 0, 0, 14]).await?;
    let mut last = Vec::new();
    loop {
        if server.read_buf(&mut last).await? == 0 {
            return Ok(last);
        }
        let pong = [7, 0, 0, 1, 0, 0, 0];
        if last.len() >= 11 && last[last.len() - 11..].starts_with(&pong) {
            last.truncate(last.len() - 11);
            return Ok(last);
        }
    }
}

/// How long the first message is, if it is there as a whole.
fn length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..4)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize + 4;
    (bytes.len() >= length).then_some(length)
}
