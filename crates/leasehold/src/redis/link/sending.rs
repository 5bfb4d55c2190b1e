//! A request whose sending and whose answer are two steps.

use std::pin::Pin;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, RedisError, Value};
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
    patience: Patience<'a>,
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

    /// Whether a request can leave at once.
    pub(in crate::redis) fn is_connected(&self) -> bool {
        lock(&self.line).connection.initialized()
    }

    /// For whoever waits for an answer to what another sends. If it gives up and
    /// nothing at all was heard meanwhile, the connection is not used again. None
    /// while it is being made, which may take longer than that.
    pub(in crate::redis) fn patience(&self) -> Option<Patience<'_>> {
        let number = {
            let line = lock(&self.line);
            line.connection.initialized().then_some(line.number)?
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
