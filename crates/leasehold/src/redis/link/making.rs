//! How a connection is made: by all who need it. Whoever asked first may look
//! elsewhere for a while; then the others go on with it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Cmd, ErrorKind as RedisKind, PushInfo, RedisError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::super::way::{ANSWER_WITHIN, Way};
use super::super::{fit, lock};
use super::{Goal, Link, ROOM};

/// How long all steps to a connection may take together.
const MADE_WITHIN: Duration = Duration::from_secs(ANSWER_WITHIN.as_secs() * 2);

/// How often a connection is made for one who needs it. More than once only if the
/// attempt was another's, or was overtaken.
const ATTEMPTS: usize = 3;

type Made = Shared<BoxFuture<'static, Result<MultiplexedConnection, RedisError>>>;

/// A connection that is being made, as long as somebody waits for it.
pub(super) type Making = WeakShared<BoxFuture<'static, Result<MultiplexedConnection, RedisError>>>;

impl Link {
    /// The connection, and its number; made if there is none.
    pub(super) async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        {
            let line = lock(&self.line);
            if let Some(connection) = &line.connection {
                return Ok((line.number, connection.clone()));
            }
        }
        // Rare and large: in a box, so that every request is small.
        Box::pin(self.new_connection()).await
    }

    async fn new_connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let (number, making, is_ours) = match self.join_making() {
                Ok(ready) => return Ok(ready),
                Err(making) => making,
            };
            let made = tokio::time::timeout(MADE_WITHIN, making.clone()).await;
            let made = made.unwrap_or_else(|_| {
                let why = "the server could not be reached in time";
                Err(std::io::Error::new(std::io::ErrorKind::TimedOut, why).into())
            });
            let mut line = lock(&self.line);
            match made {
                Ok(connection) if line.number == number => return Ok((number, connection)),
                // It was given up while it was made.
                Ok(_) => {}
                Err(error) => {
                    let is_same = |making: &Made, other: &Making| {
                        other.upgrade().is_none_or(|other| other.ptr_eq(making))
                    };
                    line.making.take_if(|other| is_same(&making, other));
                    if is_ours {
                        return Err(error);
                    }
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            (RedisKind::Io, "the connection was given up as it was made").into()
        }))
    }

    /// The connection if there is one by now; else what makes it, with its number,
    /// and whether it was begun here.
    fn join_making(&self) -> Result<(u64, MultiplexedConnection), (u64, Made, bool)> {
        let mut line = lock(&self.line);
        let number = line.number;
        if let Some(connection) = &line.connection {
            return Ok((number, connection.clone()));
        }
        if let Some(making) = line.making.as_ref().and_then(WeakShared::upgrade) {
            return Err((number, making, false));
        }
        let making = self.start_making(number);
        line.making = making.downgrade();
        Err((number, making, true))
    }

    fn start_making(&self, number: u64) -> Made {
        let link = self.this.upgrade();
        let making = async move {
            let going = || RedisError::from((RedisKind::Io, "the session is going"));
            let link = link.ok_or_else(going)?;
            let made = link.make_connection(number).await?;
            if number > 0 && link.line_number() == number {
                // Before anybody uses it.
                link.common.ears.missed();
            }
            let mut line = lock(&link.line);
            if line.number == number {
                line.making = None;
                line.connection = Some(made.clone());
            }
            Ok(made)
        };
        making.boxed().shared()
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
        if self.line_number() != number {
            return Err((RedisKind::Io, "it is not needed any more").into());
        }
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
        {
            let mut told = lock(&self.told);
            if told.as_ref() == way.host() {
                *told = None;
            }
            if told.is_some() {
                return Err((RedisKind::Io, "another server is the master now").into());
            }
        }
        self.greet(number, &mut connection).await?;
        let channels = lock(&self.common.channels).clone();
        if !channels.is_empty() {
            connection.subscribe(channels).await?;
        }
        Ok(connection)
    }

    /// Tells a new connection what it is told first. A server that refuses is
    /// used all the same; whoever needs it asks `is_greeted`.
    async fn greet(
        &self,
        number: u64,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), RedisError> {
        let mut is_greeted = true;
        for words in self.common.greeting {
            let mut command = Cmd::new();
            command.arg(*words);
            match command.query_async::<()>(connection).await {
                Err(error) if error.code().is_some() => is_greeted = false,
                answer => answer?,
            }
        }
        if self.line_number() == number {
            self.is_greeted.store(is_greeted, Relaxed);
        }
        Ok(())
    }
}
