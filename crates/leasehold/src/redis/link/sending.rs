//! A request whose sending and whose answer are two steps.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, ErrorKind as RedisKind, RedisError, Value};
use futures_util::FutureExt;

use super::super::lock;
use super::Link;
use super::patience::Patience;

/// A connection that is there.
pub(in crate::redis) struct Ready<'a> {
    link: &'a Link,
    number: u64,
    connection: MultiplexedConnection,
}

/// A request that is on its way.
pub(in crate::redis) struct Sent<'a> {
    link: &'a Link,
    number: u64,
    patience: Patience<&'a Link>,
    answer: Answer,
}

type Answer = Pin<Box<dyn Future<Output = Result<Value, RedisError>> + Send>>;

impl Link {
    /// Connects if need be. What is sent then does not have to wait for that.
    pub(in crate::redis) async fn ready(&self) -> Result<Ready<'_>, RedisError> {
        let (number, connection) = self.connection().await?;
        Ok(Ready {
            link: self,
            number,
            connection,
        })
    }

    /// Sends a command that may name the server it goes to, if there is a
    /// connection. When this returns it is on its way, before all that come later.
    pub(in crate::redis) fn post(
        self: &Arc<Self>,
        command: impl FnOnce(&str) -> Cmd,
    ) -> Option<Posted> {
        let (number, connection) = {
            let line = lock(&self.line);
            (line.number, line.connection.clone()?)
        };
        let command = {
            let goal = lock(&self.goal);
            let server = goal.server.as_deref();
            command(server.filter(|_| goal.number == number)?)
        };
        Some(Posted::new(self, number, connection, command))
    }

    /// Whether a request can leave at once.
    pub(in crate::redis) fn is_connected(&self) -> bool {
        lock(&self.line).connection.is_some()
    }

    /// For whoever waits for an answer to what another sends. If it gives up and
    /// nothing at all was heard meanwhile, the connection is not used again. None
    /// while it is being made, which may take longer than that.
    pub(in crate::redis) fn patience(&self) -> Option<Patience<&Link>> {
        let number = {
            let line = lock(&self.line);
            line.connection.is_some().then_some(line.number)?
        };
        Some(Patience::new(self, number))
    }
}

impl<'a> Ready<'a> {
    /// When this returns the command is on its way, before all that come later.
    pub(in crate::redis) fn send(self, command: Cmd) -> Sent<'a> {
        let mut connection = self.connection;
        let answer = async move { command.query_async(&mut connection).await };
        // The first poll hands it to the connection, which has room for it; it
        // must not be put off because its task has had its share.
        let mut answer: Answer = tokio::task::unconstrained(answer).boxed();
        let patience = Patience::new(self.link, self.number);
        if let Some(answered) = (&mut answer).now_or_never() {
            answer = std::future::ready(answered).boxed();
        }
        Sent {
            link: self.link,
            number: self.number,
            patience,
            answer,
        }
    }
}

impl Sent<'_> {
    /// Also says which connection it came on.
    pub(in crate::redis) async fn answer(self) -> Result<(Value, u64), RedisError> {
        let answer = self.answer.await;
        self.patience.ends();
        Ok((self.link.judge(self.number, answer)?, self.number))
    }
}

/// A request that is on its way, and goes whether or not anybody waits for its
/// answer, as long as this is there: the client leaves out a request that nobody
/// waits for if it has not left yet.
pub(in crate::redis) struct Posted {
    link: Arc<Link>,
    number: u64,
    answer: Answer,
    patience: Option<Patience<Arc<Link>>>,
}

impl Posted {
    fn new(
        link: &Arc<Link>,
        number: u64,
        mut connection: MultiplexedConnection,
        command: Cmd,
    ) -> Self {
        let answer = async move { connection.send_packed_command(&command).await };
        let mut posted = Self {
            link: link.clone(),
            number,
            // As above.
            answer: tokio::task::unconstrained(answer).boxed(),
            patience: Some(Patience::new(link.clone(), number)),
        };
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = posted.answer.as_mut().poll(&mut context) {
            posted.answer = std::future::ready(answer).boxed();
        }
        posted
    }

    /// The number of the connection that it went over.
    pub(in crate::redis) fn connection(&self) -> u64 {
        self.number
    }

    pub(in crate::redis) fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Value, RedisError>> {
        let answer = ready!(self.answer.as_mut().poll(context));
        if let Some(patience) = self.patience.take() {
            patience.ends();
        }
        let answer = answer.and_then(Value::extract_error);
        Poll::Ready(self.link.judge(self.number, answer))
    }

    /// The answer, for somebody who looks for it now and then. An error if none
    /// will come: then the connection is not used any more. That nothing was heard
    /// for a while says nothing here: it may be we who had no time to listen.
    pub(in crate::redis) fn look(&mut self) -> Option<Result<Value, RedisError>> {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = self.answer.as_mut().poll(&mut context) {
            if let Some(patience) = self.patience.take() {
                patience.ends();
            }
            let answer = answer.and_then(Value::extract_error);
            return Some(self.link.judge(self.number, answer));
        }
        let is_over = self.link.line_number() != self.number;
        is_over.then(|| Err((RedisKind::Io, "the connection is not used any more").into()))
    }
}
