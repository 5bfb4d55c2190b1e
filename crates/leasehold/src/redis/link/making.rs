//! How a connection is made: by a task of its own. Whoever needs it first may stop
//! asking, or look elsewhere for a while; the others do not wait for that.

use std::sync::atomic::Ordering::Relaxed;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Cmd, ErrorKind as RedisKind, PushInfo, RedisError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::super::way::{ANSWER_WITHIN, Way};
use super::super::{fit, lock};
use super::{Goal, Link, ROOM};

/// A connection that is being made, for all who wait for it.
pub(super) type Making = Shared<BoxFuture<'static, Result<MultiplexedConnection, RedisError>>>;

impl Link {
    /// The connection, and its number; made if there is none.
    pub(super) async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        let (number, making) = {
            let mut line = lock(&self.line);
            let number = line.number;
            if let Some(connection) = &line.connection {
                return Ok((number, connection.clone()));
            }
            let making = line.making.get_or_insert_with(|| self.start_making(number));
            (number, making.clone())
        };
        let made = making.clone().await;
        if made.is_err() {
            // Else nobody would if its task did not come to its end.
            let mut line = lock(&self.line);
            line.making.take_if(|other| other.ptr_eq(&making));
        }
        Ok((number, made?))
    }

    fn start_making(&self, number: u64) -> Making {
        let going = || RedisError::from((RedisKind::Io, "the session is going"));
        let link = self.this.upgrade();
        let task = tokio::spawn(async move {
            let link = link.ok_or_else(going)?;
            let made = link.make_connection(number).await;
            if made.is_ok() && number > 0 {
                // Before anybody uses it.
                link.common.ears.missed();
            }
            let mut line = lock(&link.line);
            if line.number == number {
                line.making = None;
                line.connection = made.as_ref().ok().cloned();
            }
            drop(line);
            made
        });
        let made = async move { task.await.unwrap_or_else(|_| Err(going())) };
        made.boxed().shared()
    }

    async fn make_connection(&self, number: u64) -> Result<MultiplexedConnection, RedisError> {
        let link = self.this.clone();
        let take_in = move |push: PushInfo| {
            if let Some(link) = link.upgrade() {
                link.take_in(number, push);
            }
            Ok::<(), ()>(())
        };
        let settings = AsyncConnectionConfig::new()
            .set_push_sender(take_in)
            .set_pipeline_buffer_size(ROOM)
            .set_response_timeout(Some(ANSWER_WITHIN))
            .set_connection_timeout(Some(ANSWER_WITHIN));
        let access = &self.common.access;
        let told = lock(&self.told).take();
        let way = match told {
            Some(host) => Way::Host(host),
            None => access.find(&self.way).await?,
        };
        let mut connection = access.connect(&way, &settings).await?;
        let info: String = ::redis::cmd("INFO").query_async(&mut connection).await?;
        fit::check(&info, self.common.mode)?;
        let server = fit::value(&info, "run_id").map(str::to_owned);
        let micros = fit::value(&info, "server_time_usec").and_then(|micros| micros.parse().ok());
        if let Some(millis) = micros.map(|micros: u64| micros / 1000) {
            self.learn_time(millis);
        }
        {
            // A slower attempt of before must not be taken for this one.
            let mut goal = lock(&self.goal);
            if goal.number <= number {
                let host = way.host().cloned();
                *goal = Goal {
                    number,
                    server,
                    host,
                };
            }
        }
        if lock(&self.told).is_some() {
            return Err((RedisKind::Io, "another server is the master now").into());
        }
        self.greet(&mut connection).await?;
        let channels = lock(&self.common.channels).clone();
        if !channels.is_empty() {
            connection.subscribe(channels).await?;
        }
        Ok(connection)
    }

    /// Tells a new connection what it is told first. A server that refuses is
    /// used all the same; whoever needs it asks `is_greeted`.
    async fn greet(&self, connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
        let mut is_greeted = true;
        for words in self.common.greeting {
            let mut command = Cmd::new();
            command.arg(*words);
            match command.query_async::<()>(connection).await {
                Err(error) if error.code().is_some() => is_greeted = false,
                answer => answer?,
            }
        }
        self.is_greeted.store(is_greeted, Relaxed);
        Ok(())
    }
}
