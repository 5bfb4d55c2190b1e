//! The resources, by name: one value each, read and written under a claim or,
//! to show what happens then, without one.

use std::path::Path;
use std::sync::Arc;

use leasehold::fence::{
    ClaimedFile, ClaimedObject, ClaimedRedis, ClaimedSql, FencedFile, FencedObject, FencedRedis,
    FencedSql,
};
use leasehold::{Fence, Result};
use object_store::{ObjectStore, ObjectStoreExt as _};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use sqlx_core::pool::Pool;
use sqlx_mysql::MySql;
use sqlx_postgres::Postgres;
use sqlx_sqlite::Sqlite;

use crate::fence::object::bucket;
use crate::fence::sql::place::{Place, connect as pool};

/// The key of the value in Redis.
pub(crate) const KEY: &str = "value";

pub(crate) enum Resource {
    File(ClaimedFile),
    BareFile(String),
    Redis(ClaimedRedis, MultiplexedConnection),
    BareRedis(MultiplexedConnection),
    Postgres(Rows<Postgres>),
    Sqlite(Rows<Sqlite>),
    Mysql(Rows<MySql>),
    Object(ClaimedObject),
    BareObject(Arc<dyn ObjectStore>),
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
            "postgres" => Self::Postgres(Rows::claim(place, Some(fence)).await?),
            "bare-postgres" => Self::Postgres(Rows::claim(place, None).await?),
            "mysql" => Self::Mysql(Rows::claim(place, Some(fence)).await?),
            "bare-mysql" => Self::Mysql(Rows::claim(place, None).await?),
            "sqlite" => Self::Sqlite(Rows::claim(place, Some(fence)).await?),
            "bare-sqlite" => Self::Sqlite(Rows::claim(place, None).await?),
            "object" => {
                let object = FencedObject::new(bucket(place), KEY);
                Self::Object(object.claim(fence).await?)
            }
            "bare-object" => Self::BareObject(bucket(place)),
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
            Self::Postgres(rows) => rows.read().await?,
            Self::Sqlite(rows) => rows.read().await?,
            Self::Mysql(rows) => rows.read().await?,
            Self::Object(object) => String::from_utf8(object.content().to_vec()).unwrap(),
            Self::BareObject(bucket) => match bucket.get(&KEY.into()).await {
                Ok(got) => String::from_utf8(got.bytes().await.unwrap().to_vec()).unwrap(),
                Err(_) => String::new(),
            },
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
            Self::Postgres(rows) => rows.write(value).await,
            Self::Sqlite(rows) => rows.write(value).await,
            Self::Mysql(rows) => rows.write(value).await,
            Self::Object(object) => object.put(value.to_owned()).await,
            Self::BareObject(bucket) => {
                bucket
                    .put(&KEY.into(), value.to_owned().into())
                    .await
                    .unwrap();
                Ok(())
            }
        }
    }
}

/// A row in a database, each access in a transaction of its own. Its number
/// stands for one of the texts.
pub(crate) struct Rows<DB: Place> {
    pool: Pool<DB>,
    claimed: Option<ClaimedSql>,
}

const TEXTS: [&str; 3] = ["", "by the first", "by the next"];
/// Above it are texts that are numbers themselves.
const COUNTED: i64 = 1000;

impl<DB: Place> Rows<DB> {
    async fn claim(url: &str, fence: Option<Fence>) -> Result<Self> {
        let pool: Pool<DB> = pool(url).await;
        let mut claimed = None;
        if let Some(fence) = fence {
            let mut transaction = pool.begin().await.unwrap();
            let resource = FencedSql::new("value");
            claimed = Some(resource.claim(&mut transaction, fence).await?);
            transaction.commit().await.unwrap();
        }
        Ok(Self { pool, claimed })
    }

    async fn read(&self) -> Result<String> {
        let mut transaction = self.pool.begin().await.unwrap();
        if let Some(claimed) = &self.claimed {
            claimed.check(&mut transaction).await?;
        }
        let look = "select number from stock";
        let number = DB::numbers(&mut transaction, look).await.unwrap()[0];
        transaction.commit().await.unwrap();
        let known = usize::try_from(number).ok();
        Ok(match known.and_then(|number| TEXTS.get(number)) {
            Some(text) => (*text).to_owned(),
            None => (number - COUNTED).to_string(),
        })
    }

    async fn write(&self, text: &str) -> Result<()> {
        let mut transaction = self.pool.begin().await.unwrap();
        if let Some(claimed) = &self.claimed {
            claimed.check(&mut transaction).await?;
        }
        let number = match TEXTS.iter().position(|known| *known == text) {
            Some(number) => i64::try_from(number).unwrap(),
            None => COUNTED + text.parse::<i64>().unwrap(),
        };
        let set = format!("update stock set number = {number}");
        DB::execute(&mut transaction, &set).await.unwrap();
        transaction.commit().await.unwrap();
        Ok(())
    }
}

pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}
