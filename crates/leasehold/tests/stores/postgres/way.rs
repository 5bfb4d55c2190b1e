//! A way to the server that sees every request and loses the one, or the one
//! answer, that a test names.

use std::sync::atomic::{AtomicBool, Ordering};
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
    armed: Mutex<Option<(String, Fault)>>,
    is_silent: AtomicBool,
    fired: tokio::sync::Notify,
    released: tokio::sync::Notify,
}

impl Way {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        let mut links = JoinSet::new();
        links.spawn(async move {
            let mut links = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
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

    pub(crate) fn url(&self) -> String {
        format!("postgres://u@127.0.0.1:{}/postgres", self.port)
    }

    /// The fault happens once, to the next request that has this text in it.
    pub(crate) fn arm(&self, text: &str, fault: Fault) {
        *self.state.armed.lock().unwrap() = Some((text.to_owned(), fault));
    }

    /// Waits until it has happened.
    pub(crate) async fn fired(&self) {
        let fired = self.state.fired.notified();
        tokio::time::timeout(super::LONG, fired).await.unwrap();
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

async fn carry(mut client: TcpStream, mut server: TcpStream, state: &State) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    // The first message has no kind before its length; none of ours is lost.
    let mut is_first = true;
    let mut fault = None;
    loop {
        tokio::select! {
            count = client.read_buf(&mut requests) => {
                if count? == 0 {
                    return Ok(());
                }
                state.pass().await;
                while let Some(end) = length(&requests, is_first) {
                    is_first = false;
                    let message: Vec<u8> = requests.drain(..end).collect();
                    if let Some(now) = state.judge(&message) {
                        fault = Some(now);
                        state.fired.notify_one();
                        match now {
                            Fault::RequestLost => return Ok(()),
                            Fault::HeldBack => {
                                state.released.notified().await;
                                server.write_all(&message).await?;
                                // Until the server has done it.
                                wait_until_ready(&mut server, &mut answers).await?;
                                return Ok(());
                            }
                            Fault::AnswerLost | Fault::Silence | Fault::AnswerHeldBack => {}
                        }
                    }
                    server.write_all(&message).await?;
                }
            }
            count = server.read_buf(&mut answers) => {
                state.pass().await;
                if count? == 0 {
                    return Ok(());
                }
                match fault {
                    None => client.write_all(&answers).await?,
                    Some(Fault::AnswerLost) => {
                        wait_until_ready(&mut server, &mut answers).await?;
                        return Ok(());
                    }
                    Some(Fault::AnswerHeldBack) => {
                        state.released.notified().await;
                        client.write_all(&answers).await?;
                        fault = None;
                    }
                    Some(_) => {}
                }
                answers.clear();
            }
        }
    }
}

impl State {
    /// Does not end once all is silent.
    async fn pass(&self) {
        if self.is_silent.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }

    fn judge(&self, message: &[u8]) -> Option<Fault> {
        let mut armed = self.armed.lock().unwrap();
        let (text, fault) = armed.as_ref()?;
        let (is_query, fault) = (message.first() == Some(&b'Q'), *fault);
        let has_text = message
            .windows(text.len())
            .any(|part| part == text.as_bytes());
        (is_query && has_text).then(|| {
            *armed = None;
            fault
        })
    }
}

/// Reads until the server is ready for the next request.
async fn wait_until_ready(server: &mut TcpStream, answers: &mut Vec<u8>) -> std::io::Result<()> {
    loop {
        while let Some(end) = length(answers, false) {
            let message: Vec<u8> = answers.drain(..end).collect();
            if message[0] == b'Z' {
                return Ok(());
            }
        }
        if server.read_buf(answers).await? == 0 {
            return Ok(());
        }
    }
}

/// How long the first message is, if it is there as a whole.
fn length(bytes: &[u8], is_first: bool) -> Option<usize> {
    let kind = usize::from(!is_first);
    let length = bytes.get(kind..kind + 4)?;
    let length = u32::from_be_bytes(length.try_into().unwrap()) as usize + kind;
    (bytes.len() >= length).then_some(length)
}
