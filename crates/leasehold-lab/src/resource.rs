//! What the locks protect: a number in a process of its own, reached over TCP.
//! It checks a fence if one is shown to it, and takes everything else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold::Fence;
use leasehold::fence::{Policy, access};
use serde::{Deserialize, Serialize};

use crate::history::{Access, Event};
use crate::recorder::Recorder;

/// What a worker asks of a resource.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// The worker.
    pub of: String,
    /// What it wants.
    pub access: Wanted,
    /// The fence that it shows, as text.
    pub fence: Option<String>,
}

/// An access, or one step that needs no lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// As it is.
    Access(Access),
    /// One less, unless it is zero already.
    Decrement,
}

/// What the resource answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub accepted: bool,
    /// The value afterwards.
    pub value: u64,
}

/// A running resource. It listens until it is dropped.
#[derive(Debug)]
pub struct Resource {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Whoever listens looks at it when somebody comes.
        let _ = TcpStream::connect(self.address);
    }
}

#[derive(Debug)]
struct State {
    name: String,
    value: u64,
    mark: Option<Fence>,
    temper: Temper,
    /// How many requests have come.
    requests: u64,
    recorder: Recorder,
}

/// What a resource is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temper {
    /// As it should be.
    Sound,
    /// It breaks a connection now and then instead of an answer: sometimes it
    /// has done what it was asked for, sometimes not.
    LosesAnswers,
    /// Wrong on purpose: it keeps no mark and lets in whoever shows a fence.
    Forgets,
}

/// One answer of so many is lost by those who lose answers. The accesses of a
/// hold are two, so that claims and writes have their turns.
const LOST_IN: u64 = 17;

impl Resource {
    /// Starts one with this value.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn start(name: &str, value: u64, recorder: Recorder) -> std::io::Result<Self> {
        Self::start_with(name, value, recorder, Temper::Sound)
    }

    /// The same, of this temper.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn start_with(
        name: &str,
        value: u64,
        recorder: Recorder,
        temper: Temper,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = State {
            name: name.to_owned(),
            value,
            mark: None,
            temper,
            requests: 0,
            recorder,
        };
        let state = Arc::new(Mutex::new(state));
        let is_over = Arc::new(AtomicBool::new(false));
        let (shared, ends) = (state.clone(), is_over.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let state = shared.clone();
                // A connection that breaks ends its thread.
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        Ok(Self {
            address,
            state,
            is_over,
        })
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> u64 {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).value
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut output = stream;
    for line in BufReader::new(stream).lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let answer = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.answer(&request)
        };
        let Some(answer) = answer else {
            return Ok(());
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        output.write_all(text.as_bytes())?;
    }
    Ok(())
}

impl State {
    /// None if the answer is lost, with or without the access.
    fn answer(&mut self, request: &Request) -> Option<Answer> {
        self.requests += 1;
        let (rounds, rest) = (self.requests / LOST_IN, self.requests % LOST_IN);
        if self.temper != Temper::LosesAnswers || rest > 0 {
            return Some(self.decide(request));
        }
        if rounds.is_multiple_of(2) {
            self.decide(request);
        }
        None
    }

    fn decide(&mut self, request: &Request) -> Answer {
        let fence = request.fence.as_deref().map(str::parse::<Fence>);
        let (accepted, access) = match (request.access, fence) {
            (Wanted::Access(access), Some(Ok(fence))) => (self.is_let_in(access, fence), access),
            (Wanted::Access(access), None) => (true, access),
            (Wanted::Access(access), Some(Err(_))) => (false, access),
            (Wanted::Decrement, _) => {
                let less = self.value.checked_sub(1);
                (less.is_some(), Access::Write(less.unwrap_or(0)))
            }
        };
        if let (true, Access::Write(value)) = (accepted, access) {
            self.value = value;
        }
        let token = request
            .fence
            .as_deref()
            .and_then(|text| text.parse::<Fence>().ok());
        let decides = Event::Decides {
            of: request.of.clone(),
            access,
            token: token.map(|fence| fence.token.get()),
            accepted,
            value: self.value,
        };
        self.recorder.tell(&self.name, decides);
        Answer {
            accepted,
            value: self.value,
        }
    }

    /// By the rule that every fenced resource here goes by.
    fn is_let_in(&mut self, wanted: Access, fence: Fence) -> bool {
        if self.temper == Temper::Forgets {
            return true;
        }
        match wanted {
            Access::Claim => match Policy::Ordered.claim(self.mark, fence) {
                Ok(mark) => {
                    self.mark = Some(mark);
                    true
                }
                Err(_) => false,
            },
            Access::Read | Access::Write(_) => access(self.mark, fence).is_ok(),
        }
    }
}

/// A worker's connection to a resource.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
    of: String,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// As connecting does.
    pub fn connect(address: SocketAddr, of: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let stream = BufReader::new(stream);
        let of = of.to_owned();
        Ok(Self { stream, of })
    }

    /// Connects once more, after an answer that did not come.
    ///
    /// # Errors
    /// As connecting does.
    pub fn connect_again(&mut self) -> std::io::Result<()> {
        let address = self.stream.get_ref().peer_addr()?;
        *self = Self::connect(address, &self.of)?;
        Ok(())
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// If the connection breaks: it is then unknown whether it was done.
    pub fn ask(&mut self, access: Wanted, fence: Option<Fence>) -> std::io::Result<Answer> {
        let request = Request {
            of: self.of.clone(),
            access,
            fence: fence.map(|fence| fence.to_string()),
        };
        let mut text = serde_json::to_string(&request)?;
        text.push('\n');
        self.stream.get_mut().write_all(text.as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold::Token;

    fn fence(token: u64) -> Option<Fence> {
        let token = Token::new(token);
        Some(Fence { token, holder: 1 })
    }

    #[test]
    fn it_goes_by_fences_that_are_shown_and_takes_the_rest() {
        let recorder = Recorder::default();
        let resource = Resource::start("r", 5, recorder.clone()).unwrap();
        let mut client = Client::connect(resource.address, "w").unwrap();
        let mut ask = |access, fence| client.ask(Wanted::Access(access), fence).unwrap();
        assert!(ask(Access::Claim, fence(7)).accepted);
        assert!(ask(Access::Write(4), fence(7)).accepted);
        assert!(!ask(Access::Claim, fence(6)).accepted);
        assert!(!ask(Access::Write(9), fence(6)).accepted);
        assert_eq!(ask(Access::Read, None).value, 4);
        assert!(ask(Access::Write(0), None).accepted);
        let refused = client.ask(Wanted::Decrement, None).unwrap();
        assert_eq!((refused.accepted, refused.value), (false, 0));
        assert_eq!(recorder.history().lines.len(), 7);
    }

    #[test]
    fn one_that_loses_answers_has_done_every_other_of_those() {
        let temper = Temper::LosesAnswers;
        let resource = Resource::start_with("r", 0, Recorder::default(), temper).unwrap();
        let mut client = Client::connect(resource.address, "w").unwrap();
        let mut lost = Vec::new();
        for number in 1..=2 * LOST_IN {
            let write = Wanted::Access(Access::Write(number));
            if client.ask(write, None).is_err() {
                lost.push((number, resource.value()));
                client.connect_again().unwrap();
            }
        }
        assert_eq!(lost, [(LOST_IN, LOST_IN - 1), (2 * LOST_IN, 2 * LOST_IN)]);
    }

    #[test]
    fn nothing_of_one_that_is_dropped_is_kept() {
        let resource = Resource::start("r", 5, Recorder::default()).unwrap();
        let state = Arc::downgrade(&resource.state);
        drop(resource);
        let is_gone = || state.upgrade().is_none();
        assert!(crate::crew::until(
            std::time::Duration::from_secs(30),
            is_gone
        ));
    }

    #[test]
    fn a_forgetful_one_lets_in_an_older_fence() {
        let temper = Temper::Forgets;
        let resource = Resource::start_with("r", 5, Recorder::default(), temper).unwrap();
        let mut client = Client::connect(resource.address, "w").unwrap();
        let mut ask = |access, fence| client.ask(Wanted::Access(access), fence).unwrap();
        assert!(ask(Access::Claim, fence(7)).accepted);
        assert!(ask(Access::Write(9), fence(6)).accepted);
    }
}
