//! The requests of one connection, one after the other.
//!
//! They belong to the connection and not to whoever made them: everybody who
//! wants it drives on the one that is under way. So a task that makes a request
//! and then looks elsewhere for a while holds up nobody.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use sqlx_core::error::Error as SqlxError;
use sqlx_core::executor::Executor;
use sqlx_core::raw_sql::raw_sql;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_postgres::PgRow;
use tokio::sync::oneshot;

use super::super::ears::Connection;
use super::super::fault::{Cure, cure};
use super::super::lock;
use super::watcher::Watcher;
use crate::clock::{Moment, boot_time};

pub(super) type Answer = Result<Vec<PgRow>, SqlxError>;

/// A connection and what is asked of it.
pub(super) struct Requests {
    /// There while nothing is under way, unless it is broken.
    connection: Option<Connection>,
    under_way: Option<UnderWay>,
    urgent: VecDeque<Request>,
    others: VecDeque<Request>,
    /// Only what is urgent is taken.
    is_closing: bool,
    /// When the last answer came.
    answered: Moment,
    alarm: Arc<Alarm>,
    waker: Waker,
}

/// One that has its turn later. It is left out if nobody wants its answer then.
pub(super) struct Request {
    pub(super) text: String,
    pub(super) reply: oneshot::Sender<Answer>,
    /// Whoever made it.
    pub(super) owner: Arc<AtomicWaker>,
    /// It goes before those that are not.
    pub(super) is_urgent: bool,
}

struct UnderWay {
    request: Pin<Box<dyn Future<Output = (Connection, Answer)> + Send>>,
    reply: oneshot::Sender<Answer>,
}

impl Requests {
    pub(super) fn new(connection: Connection, watcher: Arc<Watcher>) -> Self {
        let alarm = Arc::new(Alarm {
            is_rung: AtomicBool::new(false),
            watcher,
            owners: Mutex::default(),
        });
        Self {
            connection: Some(connection),
            under_way: None,
            urgent: VecDeque::new(),
            others: VecDeque::new(),
            is_closing: false,
            answered: boot_time(),
            waker: alarm.clone().into(),
            alarm,
        }
    }

    pub(super) fn add(&mut self, request: Request) {
        match request.is_urgent {
            true => {
                self.alarm.add(&request.owner);
                self.urgent.push_back(request);
            }
            // Whoever made it hears that there is no connection.
            false if self.is_closing => {}
            false => self.others.push_back(request),
        }
    }

    /// Goes as far as that is possible without waiting. Whoever calls this must
    /// have said before how to wake him.
    pub(super) fn drive(&mut self) {
        loop {
            if self.under_way.is_none() {
                self.under_way = self.next();
                self.alarm.is_rung.store(true, Ordering::Release);
            }
            let Some(under_way) = &mut self.under_way else {
                return;
            };
            // Whoever watches many connections comes by often.
            if !self.alarm.is_rung.swap(false, Ordering::AcqRel) {
                return;
            }
            let context = &mut Context::from_waker(&self.waker);
            let Poll::Ready((connection, answer)) = under_way.request.as_mut().poll(context) else {
                return;
            };
            self.answered = boot_time();
            let is_broken = matches!(&answer, Err(error) if cure(error) == Cure::Reconnect);
            // Used again, it would be another connection, which holds nothing.
            self.connection = Some(connection).filter(|_| !is_broken);
            if let Some(under_way) = self.under_way.take() {
                let _ = under_way.reply.send(answer);
            }
            // It may have brought a message along.
            self.alarm.watcher.call();
        }
    }

    fn next(&mut self) -> Option<UnderWay> {
        loop {
            let request = self.urgent.pop_front();
            let request = request.or_else(|| self.others.pop_front())?;
            if request.reply.is_closed() {
                continue;
            }
            let Some(mut connection) = self.connection.take() else {
                let _ = request.reply.send(not_connected());
                continue;
            };
            self.alarm.is_under_way(request.owner);
            let text = request.text;
            let made = async move {
                let answer = match connection.listener() {
                    Some(listener) => listener.fetch_all(raw_sql(AssertSqlSafe(text))).await,
                    None => not_connected(),
                };
                (connection, answer)
            };
            return Some(UnderWay {
                request: Box::pin(made),
                reply: request.reply,
            });
        }
    }

    /// The connection, unless something is under way.
    pub(super) fn idle(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    pub(super) fn answered(&self) -> Moment {
        self.answered
    }

    pub(super) fn is_broken(&self) -> bool {
        self.connection.is_none() && self.under_way.is_none()
    }

    /// Refuses all that is not urgent, also what waits for its turn.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        self.others.clear();
    }

    /// Leaves the connection.
    pub(super) fn end(&mut self) {
        (self.connection, self.under_way) = (None, None);
        self.drive();
    }
}

pub(super) fn not_connected() -> Answer {
    Err(SqlxError::Io(std::io::ErrorKind::NotConnected.into()))
}

/// Wakes those who may drive on what is under way: whoever made it and those who made
/// something urgent; and calls the one who watches the connection. Not everybody,
/// because there may be thousands.
struct Alarm {
    /// What is under way can go on.
    is_rung: AtomicBool,
    watcher: Arc<Watcher>,
    owners: Mutex<Owners>,
}

#[derive(Default)]
struct Owners {
    of_request: Option<Arc<AtomicWaker>>,
    of_urgent: Vec<Arc<AtomicWaker>>,
}

impl Alarm {
    fn add(&self, owner: &Arc<AtomicWaker>) {
        let of_urgent = &mut lock(&self.owners).of_urgent;
        of_urgent.retain(|owner| Arc::strong_count(owner) > 1);
        of_urgent.push(owner.clone());
    }

    fn is_under_way(&self, owner: Arc<AtomicWaker>) {
        lock(&self.owners).of_request = Some(owner);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_rung.store(true, Ordering::Release);
        let owners = lock(&self.owners);
        let of_request = owners.of_request.clone();
        let of_urgent = owners.of_urgent.clone();
        drop(owners);
        for owner in of_request.iter().chain(&of_urgent) {
            owner.wake();
        }
        self.watcher.call();
    }
}
