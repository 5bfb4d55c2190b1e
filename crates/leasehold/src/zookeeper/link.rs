//! One connection to one server. Requests go out at once, one behind the other;
//! answers come in the same order. Nothing runs by itself: what the server sends
//! is taken in by the session's own task, which listens, or where nobody listens
//! by whoever waits for an answer. Nobody keeps anything from the others while
//! it waits: a task of the user's may not be polled for a long time.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::events::Events;
use super::fault::Refusal;
use super::lock;
use super::wire::{self, AUTH_XID, Frame, PING_XID, Reply, Request};
use crate::clock::{Moment, boot_time};

type Answer = Result<Reply, Refusal>;
pub(super) type Answers = oneshot::Receiver<Answer>;

/// How many answered requests are remembered. They are apart, so that a busy
/// session too remembers half a timeout: renewals look back by at most a quarter.
const TOUCHES: u32 = 256;

pub(super) struct Link {
    stream: TcpStream,
    state: Mutex<State>,
    /// What was received and not yet understood.
    received: Mutex<Vec<u8>>,
    /// How many listen, which is one or none.
    listeners: AtomicUsize,
    /// A listener has left.
    left: Notify,
    /// The state is to be looked at.
    look: Notify,
    events: Arc<Events>,
    /// Up to where this server has come.
    zxid: AtomicI64,
    /// Which of its session's connections it is.
    pub(super) number: u64,
}

#[derive(Default)]
struct State {
    unwritten: Vec<u8>,
    last_xid: i32,
    pending: VecDeque<Pending>,
    touches: VecDeque<Touch>,
    last: Option<Touch>,
    /// How far apart the touches are, at least.
    apart: Duration,
    end: Option<Refusal>,
}

struct Pending {
    xid: i32,
    request: Request,
    answer: oneshot::Sender<Answer>,
    sent: Moment,
}

/// A request that the server has answered: it knows that we lived at `sent`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Touch {
    pub(super) sent: Moment,
    pub(super) answered: Moment,
}

impl Link {
    /// A connection whose session the server knows; `received` is what came
    /// behind the welcome.
    pub(super) fn new(
        stream: TcpStream,
        received: Vec<u8>,
        events: Arc<Events>,
        number: u64,
        timeout: Duration,
    ) -> Self {
        let state = State {
            apart: timeout / (2 * TOUCHES),
            ..State::default()
        };
        Self {
            stream,
            state: Mutex::new(state),
            received: Mutex::new(received),
            listeners: AtomicUsize::new(0),
            left: Notify::new(),
            look: Notify::new(),
            events,
            zxid: AtomicI64::new(0),
            number,
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        lock(&self.state).end.is_none()
    }

    pub(super) fn zxid(&self) -> i64 {
        self.zxid.load(Ordering::Acquire)
    }

    /// Sends requests in one go. The server works on them in this order.
    pub(super) fn send(&self, requests: Vec<Request>) -> Result<Vec<Answers>, Refusal> {
        let mut state = lock(&self.state);
        if let Some(end) = &state.end {
            return Err(Refusal::Unreachable(end.to_string()));
        }
        let sent = boot_time();
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let xid = state.next_xid(&request);
            state.unwritten.extend(request.frame(xid));
            let (answer, receiver) = oneshot::channel();
            answers.push(receiver);
            state.pending.push_back(Pending {
                xid,
                request,
                answer,
                sent,
            });
        }
        if let Err(error) = self.write(&mut state) {
            state.end(Refusal::Broken(error.to_string()));
        }
        if !state.unwritten.is_empty() || state.end.is_some() {
            self.look.notify_waiters();
        }
        Ok(answers)
    }

    /// Waits for an answer, and takes in others meanwhile if nobody listens.
    pub(super) async fn answer(&self, mut answer: Answers) -> Answer {
        loop {
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            let is_listened = self.listeners.load(Ordering::Acquire) > 0;
            if !is_listened {
                self.take_in();
            }
            match answer.try_recv() {
                Ok(answered) => return answered,
                Err(TryRecvError::Closed) => return Err(self.why()),
                Err(TryRecvError::Empty) => {}
            }
            tokio::select! {
                biased;
                answered = &mut answer => {
                    return answered.unwrap_or_else(|_| Err(self.why()));
                }
                () = left => {}
                () = self.ready(), if !is_listened => {}
            }
        }
    }

    /// Takes in what the server sends until the connection ends.
    pub(super) async fn listen(&self) {
        let _listener = Listener::of(self);
        while self.is_alive() {
            self.take_in();
            self.ready().await;
        }
    }

    /// Gives the connection up: nothing that was asked over it will be answered.
    pub(super) fn end(&self, why: Refusal) {
        lock(&self.state).end(why);
        self.look.notify_waiters();
        self.events.ring_all();
    }

    /// Since when the server owes an answer.
    pub(super) fn owes_since(&self) -> Option<Moment> {
        let state = lock(&self.state);
        state.pending.front().map(|pending| pending.sent)
    }

    /// When the last request was sent that was answered so long before a moment.
    pub(super) fn last_touch(&self, moment: Moment, before: Duration) -> Option<Moment> {
        let state = lock(&self.state);
        let touches = state.touches.iter().rev();
        let mut answered = touches.filter(|touch| touch.answered + before <= moment);
        answered.next().map(|touch| touch.sent)
    }

    /// Whether a request was answered that was sent after a moment.
    pub(super) fn is_proven(&self, since: Moment) -> bool {
        let state = lock(&self.state);
        state.end.is_none() && state.last.is_some_and(|touch| touch.sent >= since)
    }

    fn why(&self) -> Refusal {
        let gone = || Refusal::Broken("the connection is gone".into());
        match lock(&self.state).end.clone() {
            Some(Refusal::SessionOver) => Refusal::SessionOver,
            Some(Refusal::NotAllowed) => Refusal::NotAllowed,
            Some(Refusal::Garbled) => Refusal::Garbled,
            Some(end) => Refusal::Broken(end.to_string()),
            None => gone(),
        }
    }

    fn write(&self, state: &mut State) -> io::Result<()> {
        while !state.unwritten.is_empty() {
            match self.stream.try_write(&state.unwritten) {
                Ok(count) => drop(state.unwritten.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until there is something to do.
    async fn ready(&self) {
        let mut look = pin!(self.look.notified());
        look.as_mut().enable();
        let has_unwritten = {
            let state = lock(&self.state);
            if state.end.is_some() {
                return;
            }
            !state.unwritten.is_empty()
        };
        // An error shows when the connection is read from.
        tokio::select! {
            biased;
            _ = self.stream.readable() => {}
            _ = self.stream.writable(), if has_unwritten => {}
            () = look => {}
        }
    }

    /// Does what there is to do, without waiting.
    fn take_in(&self) {
        if !self.is_alive() {
            return;
        }
        let mut received = lock(&self.received);
        let written = self.write(&mut lock(&self.state));
        let read = written
            .and_then(|()| self.read(&mut received))
            .map_err(|error| Refusal::Broken(error.to_string()));
        // The last answer may come with the end of the connection.
        let done = self.understand(&mut received).and(read);
        drop(received);
        if let Err(why) = done {
            self.end(why);
        }
    }

    fn read(&self, received: &mut Vec<u8>) -> io::Result<()> {
        const ENOUGH: usize = 1 << 20;
        while received.len() < ENOUGH.max(wire::first_length(received)) {
            received.reserve(16 << 10);
            match self.stream.try_read_buf(received) {
                Ok(0) => return Err(io::Error::other("the server closed the connection")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn understand(&self, received: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut done = 0;
        while let Some(frame) = wire::first_frame(&received[done..])? {
            done += 4 + frame.len();
            let (frame, zxid) = wire::read_frame(frame)?;
            self.zxid.fetch_max(zxid, Ordering::AcqRel);
            match frame {
                Frame::Event { path } => self.events.ring(&path),
                Frame::Reply {
                    xid: AUTH_XID,
                    error: 0,
                    ..
                } => {}
                Frame::Reply { xid: AUTH_XID, .. } => return Err(Refusal::NotAllowed),
                Frame::Reply { xid, error, body } => self.settle(xid, error, body)?,
            }
        }
        received.drain(..done);
        Ok(())
    }

    fn settle(&self, xid: i32, error: i32, body: &[u8]) -> Result<(), Refusal> {
        let mut state = lock(&self.state);
        let at = state.pending.iter().position(|pending| pending.xid == xid);
        let pending = at.and_then(|at| state.pending.remove(at));
        let Some(pending) = pending else {
            return Err(Refusal::Garbled);
        };
        state.touched(Touch {
            sent: pending.sent,
            answered: boot_time(),
        });
        drop(state);
        let answer = match error {
            0 => pending.request.read(body),
            error => Err(Refusal::of(error)),
        };
        let ends = answer.as_ref().err().filter(|why| why.ends_connection());
        let end = ends.cloned();
        // Whoever asked may not wait for it any more.
        let _ = pending.answer.send(answer);
        end.map_or(Ok(()), Err)
    }
}

/// Says that somebody listens, as long as it does.
struct Listener<'a>(&'a Link);

impl<'a> Listener<'a> {
    fn of(link: &'a Link) -> Self {
        link.listeners.fetch_add(1, Ordering::AcqRel);
        Self(link)
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::AcqRel);
        self.0.left.notify_waiters();
    }
}

/// Without the requests, whose paths have tickets in them.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl State {
    fn next_xid(&mut self, request: &Request) -> i32 {
        if matches!(request, Request::Ping) {
            return PING_XID;
        }
        self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
        self.last_xid
    }

    fn touched(&mut self, touch: Touch) {
        self.last = Some(touch);
        let apart = self.apart;
        let is_apart = |last: &Touch| touch.sent >= last.sent + apart;
        if self.touches.back().is_none_or(is_apart) {
            if self.touches.len() >= TOUCHES as usize {
                self.touches.pop_front();
            }
            self.touches.push_back(touch);
        }
    }

    fn end(&mut self, why: Refusal) {
        self.end.get_or_insert(why);
        self.pending.clear();
        self.unwritten.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_session_remembers_far_enough_back() {
        for timeout in [1, 10, 60, 600].map(Duration::from_secs) {
            let mut state = State {
                apart: timeout / (2 * TOUCHES),
                ..State::default()
            };
            let (start, step) = (boot_time(), timeout / 5000);
            for count in 0..5000 {
                let sent = start + step * count;
                let answered = sent;
                state.touched(Touch { sent, answered });
            }
            let oldest = state.touches.front().unwrap().sent;
            let newest = state.touches.back().unwrap().sent;
            assert!(newest.since(oldest) >= timeout / 4, "{timeout:?}");
        }
    }
}
