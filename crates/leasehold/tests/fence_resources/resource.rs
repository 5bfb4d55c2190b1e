//! The resources, by name: one value each, read and written under a claim or,
//! to show what happens then, without one.

use std::path::Path;

use leasehold::fence::{ClaimedFile, ClaimedRedis, FencedFile, FencedRedis};
use leasehold::{Fence, Result};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;

/// The key of the value in Redis.
pub(crate) const KEY: &str = "value";

pub(crate) enum Resource {
    File(ClaimedFile),
    BareFile(String),
    Redis(ClaimedRedis, MultiplexedConnection),
    BareRedis(MultiplexedConnection),
}

impl Resource {
    /// Claims the resource of this kind, where there is something to claim.
    pub(crate) async fn claim(kind: &str, place: &str, fence: Fence) -> Result<Self> {
        Ok(match kind {
            "file" => Self::File(FencedFile::new(Path::new(place)).claim(fence)?),
            "bare-file" => Self::BareFile(place.to_owned()),
            "redis" => {
                let mut connection = connect(place).await;
                let resource = FencedRedis::new("mark");
                let claimed = resource.claim(&mut connection, fence).await?;
                Self::Redis(claimed, connection)
            }
            "bare-redis" => Self::BareRedis(connect(place).await),
            other => panic!("no such resource: {other}"),
        })
    }

    pub(crate) async fn read(&mut self) -> Result<String> {
        Ok(match self {
            Self::File(file) => String::from_utf8(file.read()?).unwrap(),
            Self::BareFile(path) => std::fs::read_to_string(path).unwrap_or_default(),
            Self::Redis(claimed, connection) => {
                let value: Option<String> = claimed.get(connection, KEY).await?;
                value.unwrap_or_default()
            }
            Self::BareRedis(connection) => {
                let value: Option<String> = connection.get(KEY).await.unwrap();
                value.unwrap_or_default()
            }
        })
    }

    pub(crate) async fn write(&mut self, value: &str) -> Result<()> {
        match self {
            Self::File(file) => file.replace(value.as_bytes()),
            Self::BareFile(path) => {
                std::fs::write(path, value).unwrap();
                Ok(())
            }
            Self::Redis(claimed, connection) => claimed.set(connection, KEY, value).await,
            Self::BareRedis(connection) => {
                let () = connection.set(KEY, value).await.unwrap();
                Ok(())
            }
        }
    }
}

pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}
