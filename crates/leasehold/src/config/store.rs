//! Which store a URL means, and what it says of it.

use std::path::PathBuf;

use super::{OPTIONS, decode, unknown, wrong};
use crate::error::Result;

/// The stores that this library knows, whether compiled in or not.
pub(super) const SCHEMES: &[&str] = &[
    "memory",
    "sqlite",
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "redis+cluster",
    "redlock",
    "etcd",
    "etcds",
    "zk",
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Memory {
        name: String,
    },
    Sqlite {
        path: PathBuf,
    },
    #[cfg(feature = "redis")]
    Redis(Box<crate::redis::RedisConfig>),
    #[cfg(feature = "redis")]
    Redlock(Box<crate::redis::redlock::RedlockConfig>),
    #[cfg(feature = "etcd")]
    Etcd(Box<crate::etcd::EtcdConfig>),
    #[cfg(feature = "zookeeper")]
    Zookeeper(Box<crate::zookeeper::ZookeeperConfig>),
    #[cfg(feature = "postgres")]
    Postgres(Box<crate::postgres::PostgresConfig>),
    #[cfg(feature = "mysql")]
    Mysql(Box<crate::mysql::MysqlConfig>),
}

impl Store {
    pub(crate) fn scheme(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "memory",
            Self::Sqlite { .. } => "sqlite",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "redis",
            #[cfg(feature = "redis")]
            Self::Redlock(_) => "redlock",
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => "etcd",
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(_) => "zk",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "postgres",
            #[cfg(feature = "mysql")]
            Self::Mysql(_) => "mysql",
        }
    }

    /// The options that this store has beside those of every store.
    pub(super) fn options(&self) -> &'static [&'static str] {
        match self {
            Self::Memory { .. } | Self::Sqlite { .. } => &[],
            #[cfg(feature = "redis")]
            Self::Redis(_) => crate::redis::OPTIONS,
            #[cfg(feature = "redis")]
            Self::Redlock(_) => crate::redis::redlock::OPTIONS,
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => crate::etcd::OPTIONS,
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(_) => crate::zookeeper::OPTIONS,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => crate::postgres::OPTIONS,
            #[cfg(feature = "mysql")]
            Self::Mysql(_) => crate::mysql::OPTIONS,
        }
    }

    /// Takes in an option of its own.
    pub(super) fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        #[cfg(feature = "redis")]
        {
            use crate::redis::Refusal;
            let set = match self {
                Self::Redis(config) => config.set(key, _value),
                Self::Redlock(config) => config.set(key, _value),
                _ => Err(Refusal::NotOurs),
            };
            match set {
                Ok(()) => return Ok(()),
                Err(Refusal::Unknown(what, known)) => return Err(unknown(what, _value, known)),
                Err(Refusal::Wrong(why)) => return Err(wrong(why)),
                Err(Refusal::NotOurs) => {}
            }
        }
        #[cfg(feature = "etcd")]
        if let Self::Etcd(config) = self {
            match config.set(key, _value) {
                Ok(()) => return Ok(()),
                Err(crate::etcd::Refusal::Wrong(why)) => return Err(wrong(why)),
                Err(crate::etcd::Refusal::NotOurs) => {}
            }
        }
        #[cfg(feature = "zookeeper")]
        if let Self::Zookeeper(config) = self {
            use crate::zookeeper::OptionRefusal;
            match config.set(key, _value) {
                Ok(()) => return Ok(()),
                Err(OptionRefusal::Unknown(what, known)) => {
                    return Err(unknown(what, _value, known));
                }
                Err(OptionRefusal::NotOurs) => {}
            }
        }
        #[cfg(feature = "postgres")]
        if let Self::Postgres(config) = self {
            use crate::postgres::Refusal;
            match config.set(key, _value) {
                Ok(()) => return Ok(()),
                Err(Refusal::Unknown(what, known)) => return Err(unknown(what, _value, known)),
                Err(Refusal::Wrong(why)) => return Err(wrong(why)),
                Err(Refusal::NotOurs) => {}
            }
        }
        #[cfg(feature = "mysql")]
        if let Self::Mysql(config) = self
            && crate::mysql::OPTIONS.contains(&key)
        {
            return config.set(key, _value).map_err(|refusal| match refusal {
                crate::mysql::Refusal::Unknown(what, known) => unknown(what, _value, known),
                crate::mysql::Refusal::Wrong(why) => wrong(why),
            });
        }
        let known = [OPTIONS, self.options()].concat();
        Err(unknown("option", key, &known))
    }

    /// Whether its options fit together.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Memory { .. } | Self::Sqlite { .. } => Ok(()),
            #[cfg(feature = "redis")]
            Self::Redis(config) => config.check().map_err(wrong),
            #[cfg(feature = "redis")]
            Self::Redlock(config) => config.check().map_err(wrong),
            #[cfg(feature = "etcd")]
            Self::Etcd(config) => config.check().map_err(wrong),
            #[cfg(feature = "zookeeper")]
            Self::Zookeeper(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => config.check().map_err(wrong),
            #[cfg(feature = "mysql")]
            Self::Mysql(config) => config.check().map_err(wrong),
        }
    }
}

impl Store {
    pub(super) fn parse(scheme: &str, place: &str) -> Result<Self> {
        // A password may have anything percent-encoded: Redis reads it itself.
        #[cfg(feature = "redis")]
        if crate::redis::SCHEMES.contains(&scheme) {
            let config = crate::redis::RedisConfig::parse(scheme, place);
            return config.map(Box::new).map(Self::Redis).map_err(wrong);
        }
        #[cfg(feature = "redis")]
        if scheme == "redlock" {
            let config = crate::redis::redlock::RedlockConfig::parse(place);
            return config.map(Box::new).map(Self::Redlock).map_err(wrong);
        }
        #[cfg(not(feature = "redis"))]
        if scheme == "unix" || scheme == "redlock" || scheme.starts_with("redis") {
            let why = format!("{scheme}: is not compiled in; enable the feature `redis`");
            return Err(wrong(why));
        }
        #[cfg(feature = "etcd")]
        if crate::etcd::SCHEMES.contains(&scheme) {
            let config = crate::etcd::EtcdConfig::parse(scheme, place);
            return config.map(Box::new).map(Self::Etcd).map_err(wrong);
        }
        #[cfg(not(feature = "etcd"))]
        if scheme == "etcd" || scheme == "etcds" {
            let why = format!("{scheme}: is not compiled in; enable the feature `etcd`");
            return Err(wrong(why));
        }
        #[cfg(feature = "zookeeper")]
        if crate::zookeeper::SCHEMES.contains(&scheme) {
            let config = crate::zookeeper::ZookeeperConfig::parse(place);
            return config.map(Box::new).map(Self::Zookeeper).map_err(wrong);
        }
        #[cfg(not(feature = "zookeeper"))]
        if scheme == "zk" {
            return Err(wrong(
                "zk: is not compiled in; enable the feature `zookeeper`",
            ));
        }
        #[cfg(feature = "postgres")]
        if crate::postgres::SCHEMES.contains(&scheme) {
            let config = crate::postgres::PostgresConfig::parse(scheme, place);
            return config.map(Box::new).map(Self::Postgres).map_err(wrong);
        }
        #[cfg(not(feature = "postgres"))]
        if scheme == "postgres" || scheme == "postgresql" {
            let why = format!("{scheme}: is not compiled in; enable the feature `postgres`");
            return Err(wrong(why));
        }
        #[cfg(feature = "mysql")]
        if crate::mysql::SCHEMES.contains(&scheme) {
            let config = crate::mysql::MysqlConfig::parse(scheme, place);
            return config.map(Box::new).map(Self::Mysql).map_err(wrong);
        }
        #[cfg(not(feature = "mysql"))]
        if scheme == "mysql" || scheme == "mariadb" {
            let why = format!("{scheme}: is not compiled in; enable the feature `mysql`");
            return Err(wrong(why));
        }
        // Both `sqlite:/path` and `sqlite:///path` are in use.
        let place = decode(place.strip_prefix("//").unwrap_or(place))?;
        match scheme {
            "memory" => Ok(Self::Memory { name: place }),
            "sqlite" if place.is_empty() => Err(wrong(
                "sqlite: names no file; write sqlite:PATH, such as sqlite:locks.db",
            )),
            "sqlite" => Ok(Self::Sqlite { path: place.into() }),
            _ => Err(unknown("URL scheme", scheme, SCHEMES)),
        }
    }
}
