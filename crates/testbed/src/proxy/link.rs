//! One connection through the proxy.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Fault, Request, Shared, frames};

/// Carries requests and replies until one side, or a fault, ends it.
pub(super) async fn run(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    let mut link = Link {
        shared,
        owed: VecDeque::new(),
        is_silent: false,
        is_ending: false,
    };
    // However it ends, both connections do.
    let _ = link.carry(client, server).await;
}

struct Link {
    shared: Arc<Shared>,
    /// The requests that the server has not answered yet.
    owed: VecDeque<Owed>,
    is_silent: bool,
    /// Nothing more is taken from the client; the link ends when what the
    /// server owes has arrived, so that one fault is one loss.
    is_ending: bool,
}

/// What the server owes for one request.
struct Owed {
    /// A subscription is confirmed per channel, and by a message in RESP3.
    confirmations: Option<usize>,
    fault: Option<Fault>,
}

enum Next {
    Requests(usize),
    Replies(usize),
}

impl Link {
    async fn carry(&mut self, mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        while !(self.is_ending && self.owed.is_empty()) {
            let next = tokio::select! {
                count = client.read_buf(&mut requests), if !self.is_ending => {
                    Next::Requests(count?)
                }
                count = server.read_buf(&mut replies) => Next::Replies(count?),
            };
            match next {
                Next::Requests(0) | Next::Replies(0) => return Ok(()),
                Next::Requests(_) => self.forward(&mut requests, &mut server).await?,
                Next::Replies(_) => {
                    if !self.answer(&mut replies, &mut client).await? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the whole requests on.
    async fn forward(&mut self, requests: &mut Vec<u8>, server: &mut TcpStream) -> io::Result<()> {
        while let Some(end) = frames::length(requests) {
            let frame: Vec<u8> = requests.drain(..end).collect();
            let fault = self.shared.note(Request::read(&frame));
            match fault {
                Some(Fault::RequestLost) => {
                    self.is_ending = true;
                    return Ok(());
                }
                Some(Fault::Delay(pause)) => tokio::time::sleep(pause).await,
                Some(Fault::ReplyLost | Fault::Silence) | None => {}
            }
            self.owed.push_back(Owed {
                confirmations: confirmations(&frame),
                fault,
            });
            server.write_all(&frame).await?;
            if fault == Some(Fault::ReplyLost) {
                self.is_ending = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends the whole replies and messages back, and says whether the link
    /// goes on.
    async fn answer(&mut self, replies: &mut Vec<u8>, client: &mut TcpStream) -> io::Result<bool> {
        while let Some(end) = frames::length(replies) {
            let frame: Vec<u8> = replies.drain(..end).collect();
            let fault = self.settle(&frame);
            self.is_silent |= fault == Some(Fault::Silence);
            if fault == Some(Fault::ReplyLost) {
                return Ok(false);
            }
            if !self.is_silent {
                client.write_all(&frame).await?;
            }
        }
        Ok(true)
    }

    /// Takes a reply off what is owed; says what becomes of it.
    fn settle(&mut self, frame: &[u8]) -> Option<Fault> {
        let is_push = frame.first() == Some(&b'>');
        let front = self.owed.front_mut()?;
        match &mut front.confirmations {
            Some(left) if confirms(frame) => {
                *left = left.saturating_sub(1);
                if *left > 0 {
                    return front.fault;
                }
            }
            // A subscription that is refused is refused as a whole.
            Some(_) if frame.first() == Some(&b'-') => {}
            None if !is_push => {}
            // A message, which nobody asked for just now.
            _ => return None,
        }
        self.owed.pop_front()?.fault
    }
}

/// How many confirmations a subscription gets; `None` for other requests.
fn confirmations(frame: &[u8]) -> Option<usize> {
    let words = frames::words(frame);
    let (command, channels) = words.split_first()?;
    let is_subscription = command.to_ascii_lowercase().ends_with(b"subscribe");
    is_subscription.then_some(channels.len().max(1))
}

/// Whether this confirms a subscription: a message in RESP3, an array in RESP2.
fn confirms(frame: &[u8]) -> bool {
    let words = frames::words(frame);
    words
        .first()
        .is_some_and(|kind| kind.ends_with(b"subscribe"))
}
