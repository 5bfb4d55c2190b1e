//! What sessions tell each other: one line in the other's pipe. A line only
//! makes things faster, so one that cannot be written is let go.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use tokio::net::unix::pipe;
use tokio::sync::Notify;

use super::fault::Fault;
use super::file::StoreFile;
use crate::engine::{GoneClaim, Lease, LeaseId, TicketId};
use crate::error::ErrorKind;

/// Longer than any line we know; a stranger's garbage stops here.
const LONGEST_LINE: usize = 64;

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// This claim may hold now, or has something else to watch.
    Look(TicketId),
    /// One of your claims was broken: renew now.
    Renew,
}

impl Message {
    fn line(self) -> String {
        match self {
            Self::Look(ticket) => format!("{:032x}\n", ticket.0),
            Self::Renew => "!\n".to_owned(),
        }
    }

    fn read(line: &[u8]) -> Option<Self> {
        match line {
            b"!" => Some(Self::Renew),
            digits if digits.len() == 32 => {
                let digits = std::str::from_utf8(digits).ok()?;
                let ticket = u128::from_str_radix(digits, 16).ok()?;
                Some(Self::Look(TicketId(ticket)))
            }
            _ => None,
        }
    }
}

pub(super) fn inbox_path(sessions: &Path, lease: LeaseId) -> PathBuf {
    sessions.join(format!("{:032x}.inbox", lease.0))
}

/// Writes one line. A line is shorter than what a pipe takes in one piece, so
/// lines of many senders never mix.
pub(super) fn send(sessions: &Path, to: LeaseId, message: Message) {
    // Without a reader the open fails, with a full pipe the write: in the first
    // case the session is gone, in the second its poll finds out.
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    if let Ok(pipe) = rustix::fs::open(inbox_path(sessions, to), flags, Mode::empty()) {
        let _ = rustix::io::write(pipe, message.line().as_bytes());
    }
}

/// A lease of our own: its files, and what it has yet to hear.
#[derive(Debug)]
pub(super) struct OpenLease {
    pub(super) lease: Lease,
    pub(super) live: OwnedFd,
    inbox: pipe::Receiver,
    unfinished: Mutex<Vec<u8>>,
    /// Claims that were broken, fetched from the store and not yet reported. A
    /// renewal whose caller gave up must not swallow them.
    pub(super) gone: Mutex<Vec<GoneClaim>>,
}

impl OpenLease {
    pub(super) fn new(file: &StoreFile, lease: Lease, live: OwnedFd) -> Result<Self, Fault> {
        let path = inbox_path(&file.sessions, lease.id);
        file.make_pipe(&path)?;
        // Being a writer as well keeps the pipe from ending whenever the last
        // sender closes it.
        let inbox = pipe::OpenOptions::new()
            .read_write(true)
            .open_receiver(&path)
            .map_err(|error| Fault::new(ErrorKind::Unavailable, error.to_string()))?;
        Ok(Self {
            lease,
            live,
            inbox,
            unfinished: Mutex::default(),
            gone: Mutex::default(),
        })
    }

    /// Waits for messages and takes in those that are there.
    ///
    /// # Cancel safety
    /// Nothing is read before the last await, so nothing is lost.
    pub(super) async fn receive(&self) -> Vec<Message> {
        loop {
            if self.inbox.readable().await.is_err() {
                std::future::pending::<()>().await;
            }
            let messages = self.take_in();
            if !messages.is_empty() {
                return messages;
            }
        }
    }

    fn take_in(&self) -> Vec<Message> {
        let mut unfinished = lock(&self.unfinished);
        let mut bytes = [0; 1024];
        while let Ok(count @ 1..) = self.inbox.try_read(&mut bytes) {
            unfinished.extend_from_slice(&bytes[..count]);
        }
        let mut messages = Vec::new();
        while let Some(end) = unfinished.iter().position(|&byte| byte == b'\n') {
            messages.extend(Message::read(&unfinished[..end]));
            unfinished.drain(..=end);
        }
        if unfinished.len() > LONGEST_LINE {
            unfinished.clear();
        }
        messages
    }
}

/// A claim of ours that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) place: u64,
    /// Rung when the claim should be looked at. It keeps a ring until somebody
    /// waits for it, so none is lost between two waits.
    pub(super) bell: Notify,
}

/// Our leases and our waiting claims.
#[derive(Debug, Default)]
pub(super) struct Ours {
    leases: Mutex<HashMap<LeaseId, Arc<OpenLease>>>,
    waits: Mutex<HashMap<TicketId, Arc<Waiting>>>,
}

impl Ours {
    pub(super) fn add_lease(&self, lease: OpenLease) {
        lock(&self.leases).insert(lease.lease.id, Arc::new(lease));
    }

    pub(super) fn lease(&self, id: LeaseId) -> Option<Arc<OpenLease>> {
        lock(&self.leases).get(&id).cloned()
    }

    pub(super) fn drop_lease(&self, id: LeaseId) {
        lock(&self.leases).remove(&id);
    }

    /// Remembers that the claim waits. A commit that failed may have left a
    /// place behind that was never taken, so the latest one counts.
    pub(super) fn waits(&self, ticket: TicketId, place: u64) {
        let mut waits = lock(&self.waits);
        if waits.get(&ticket).is_none_or(|known| known.place != place) {
            let bell = Notify::new();
            waits.insert(ticket, Arc::new(Waiting { place, bell }));
        }
    }

    pub(super) fn waiting(&self, ticket: TicketId) -> Option<Arc<Waiting>> {
        lock(&self.waits).get(&ticket).cloned()
    }

    #[cfg(test)]
    pub(super) fn waits_count(&self) -> usize {
        lock(&self.waits).len()
    }

    pub(super) fn waits_no_more(&self, ticket: TicketId) {
        lock(&self.waits).remove(&ticket);
    }

    pub(super) fn ring(&self, ticket: TicketId) {
        if let Some(waiting) = self.waiting(ticket) {
            waiting.bell.notify_one();
        }
    }
}

/// What is behind these locks is whole after any panic: no code that could
/// panic runs while one is taken.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_line_and_garbage_is_ignored() {
        for message in [Message::Look(TicketId(u128::MAX >> 9)), Message::Renew] {
            let line = message.line();
            assert_eq!(Message::read(line.trim_end().as_bytes()), Some(message));
        }
        assert_eq!(Message::read(b""), None);
        assert_eq!(Message::read(b"look at this"), None);
        assert_eq!(Message::read(&[b'x'; 32]), None);
    }
}
