//! A way to a server that loses the request, or the reply, that a test names.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not reach the server, and the connection ends.
    RequestLost,
    /// The server does it, the reply does not arrive, and the connection ends.
    ReplyLost,
}

/// Listens until the test ends.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// A kind of request, how many of it pass, and what happens then.
    armed: Option<(i32, usize, Fault)>,
    has_fired: bool,
    /// The kinds of requests that came, in their order.
    log: Vec<i32>,
}

impl Way {
    pub(super) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                serve(client, server, &shared);
            }
        });
        Self { port, state }
    }

    /// The fault happens once, to the next request of this kind after so many.
    pub(super) fn arm(&self, kind: i32, passes: usize, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        state.armed = Some((kind, passes, fault));
        state.has_fired = false;
        state.log.clear();
    }

    pub(super) fn has_fired(&self) -> bool {
        self.state.lock().unwrap().has_fired
    }

    pub(super) fn log(&self) -> Vec<i32> {
        self.state.lock().unwrap().log.clone()
    }
}

fn serve(client: TcpStream, server: TcpStream, state: &Arc<Mutex<State>>) {
    let [client_too, server_too] = [&client, &server].map(|stream| stream.try_clone().unwrap());
    let shared = state.clone();
    // The number of the request whose reply is to be lost.
    let lost = Arc::new(Mutex::new(None));
    let lost_too = lost.clone();
    std::thread::spawn(move || {
        let mut is_first = true;
        while let Some(frame) = read(&client) {
            // The first frame is no request; neither are the four-letter words,
            // which look like an endless frame.
            if !is_first && frame.len() >= 12 {
                let number = |at: usize| i32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
                match shared.lock().unwrap().see(number(8)) {
                    Some(Fault::RequestLost) => break,
                    Some(Fault::ReplyLost) => *lost.lock().unwrap() = Some(number(4)),
                    None => {}
                }
            }
            is_first = false;
            if (&server).write_all(&frame).is_err() {
                break;
            }
        }
        end(&client, &server);
    });
    std::thread::spawn(move || {
        while let Some(frame) = read(&server_too) {
            let is_lost = frame.len() >= 8 && {
                let xid = i32::from_be_bytes(frame[4..8].try_into().unwrap());
                *lost_too.lock().unwrap() == Some(xid)
            };
            if is_lost || (&client_too).write_all(&frame).is_err() {
                break;
            }
        }
        end(&client_too, &server_too);
    });
}

fn end(client: &TcpStream, server: &TcpStream) {
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

/// A whole frame with its length, or whatever comes that is none.
fn read(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    if &length == b"srvr" || &length == b"Zook" {
        let mut rest = [0; 4096];
        if &length == b"srvr" {
            return Some(length.to_vec());
        }
        let count = stream.read(&mut rest).ok()?;
        return Some([&length, &rest[..count]].concat());
    }
    let count = usize::try_from(i32::from_be_bytes(length)).ok()?;
    if count > 10 << 20 {
        // A text that goes on.
        return Some(length.to_vec());
    }
    let mut frame = vec![0; count];
    stream.read_exact(&mut frame).ok()?;
    Some([&length, frame.as_slice()].concat())
}

impl State {
    fn see(&mut self, kind: i32) -> Option<Fault> {
        self.log.push(kind);
        let (armed, passes, fault) = self.armed.as_mut()?;
        if *armed != kind {
            return None;
        }
        if *passes > 0 {
            *passes -= 1;
            return None;
        }
        let fault = *fault;
        self.armed = None;
        self.has_fired = true;
        Some(fault)
    }
}
