//! The server as it is without leasehold: connections of the same client, and
//! what the server counts.

use std::fmt;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, RedisError, RedisResult,
};

use crate::bench::report::{median, micros};
use crate::exit::Failure;

use super::fault;

/// How long an answer may take, the same as for our own connections.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct Server {
    client: Client,
    url: String,
    counters: MultiplexedConnection,
}

/// What the server has counted so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) evalsha: u64,
    pub(crate) publish: u64,
    /// Time of a core, of all its threads.
    pub(crate) cpu: Duration,
}

impl Counts {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            evalsha: self.evalsha.saturating_sub(earlier.evalsha),
            publish: self.publish.saturating_sub(earlier.publish),
            cpu: self.cpu.saturating_sub(earlier.cpu),
        }
    }
}

impl Server {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        // Our options are none of the client's.
        let url = url.split_once('?').map_or(url, |(place, _)| place);
        let client = client(url).map_err(fault(url))?;
        let counters = connect(&client, Some(ANSWER_WITHIN)).await;
        Ok(Self {
            client,
            url: url.to_owned(),
            counters: counters.map_err(fault(url))?,
        })
    }

    /// The URL without our options, with its password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection, Failure> {
        let connection = connect(&self.client, Some(ANSWER_WITHIN)).await;
        connection.map_err(|error| self.fault(error))
    }

    /// A new connection on which an answer may take as long as it takes.
    pub(crate) async fn connect_patiently(&self) -> Result<MultiplexedConnection, Failure> {
        let connection = connect(&self.client, None).await;
        connection.map_err(|error| self.fault(error))
    }

    pub(crate) fn fault(&self, error: RedisError) -> Failure {
        fault(&self.url)(error)
    }

    pub(crate) async fn counts(&self) -> Result<Counts, Failure> {
        let mut info = redis::cmd("INFO");
        info.arg("commandstats").arg("cpu");
        let info: String = self.ask(&info).await?;
        Ok(read(&info))
    }

    /// The median time of so many pings, with a pause before each: machines
    /// that sleep in between answer later.
    pub(crate) async fn ping(&self, times: usize, pause: Duration) -> Result<f64, Failure> {
        let mut samples = Vec::with_capacity(times);
        for _ in 0..times {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let began = Instant::now();
            let _: String = self.ask(&redis::cmd("PING")).await?;
            samples.push(micros(began.elapsed()));
        }
        Ok(median(&mut samples))
    }

    async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> Result<T, Failure> {
        let answer = command.query_async(&mut self.counters.clone()).await;
        answer.map_err(|error| self.fault(error))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

fn client(url: &str) -> RedisResult<Client> {
    let info = url.into_connection_info()?;
    let settings = info.redis_settings().clone();
    // The same protocol as ours: messages and answers over one connection.
    let settings = settings.set_protocol(ProtocolVersion::RESP3);
    Client::open(info.set_redis_settings(settings))
}

async fn connect(client: &Client, within: Option<Duration>) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_WITHIN))
        .set_response_timeout(within);
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Reads `cmdstat_evalsha:calls=7,usec=…` and `used_cpu_user:1.25`.
fn read(info: &str) -> Counts {
    let value = |key: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
    };
    let calls = |command: &str| {
        let line = value(&format!("cmdstat_{command}"))?;
        let calls = line.strip_prefix("calls=")?.split(',').next()?;
        calls.parse().ok()
    };
    let seconds = |key: &str| value(key)?.trim().parse::<f64>().ok();
    let cpu = seconds("used_cpu_user").unwrap_or(0.0) + seconds("used_cpu_sys").unwrap_or(0.0);
    Counts {
        evalsha: calls("evalsha").unwrap_or(0),
        publish: calls("publish").unwrap_or(0),
        cpu: Duration::try_from_secs_f64(cpu).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_time_are_read_from_what_the_server_says() {
        let info = "# CPU\r\nused_cpu_sys:0.500000\r\nused_cpu_user:1.250000\r\n\
                    cmdstat_evalsha:calls=7,usec=90,usec_per_call=12.86\r\n\
                    cmdstat_evalsha_ro:calls=9,usec=1\r\n";
        let counts = read(info);
        assert_eq!((counts.evalsha, counts.publish), (7, 0));
        assert_eq!(counts.cpu, Duration::from_millis(1750));
    }
}
