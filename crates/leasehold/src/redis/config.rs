//! Which servers, and how the locks lie in them.

use std::fmt;
use std::path::PathBuf;

use super::place::{Host, Place};

/// The options that this store has beside those of every store.
pub(crate) const OPTIONS: &[&str] = &[
    "layout",
    "durability",
    "db",
    "ca",
    "cert",
    "key",
    "sentinel_user",
    "sentinel_password",
];
/// The URL schemes of this store.
pub(crate) const SCHEMES: &[&str] = &[
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];
const LAYOUTS: &[&str] = &["queue", "plain", "redisson"];
const DURABILITIES: &[&str] = &["none", "replicas:1", "fsync"];

/// Which servers. Its `Debug` shows neither user nor password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisConfig {
    pub(super) place: Place,
    pub(super) user: User,
    /// Who we are to the sentinels.
    pub(super) sentinel_user: User,
    pub(super) database: i64,
    pub(super) tls: Option<Tls>,
    pub(super) layout: Layout,
    pub(super) durability: Durability,
}

/// How locks lie in the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Queue,
    Plain,
    Redisson,
}

/// What must have happened before a claim counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// The server said so.
    None,
    /// As many replicas said that they have it.
    Replicas(u32),
    /// It is on the server's disk.
    Fsync,
}

/// Who we are.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: Option<String>,
    pub(super) password: Option<String>,
}

/// The files that TLS needs beside the certificates of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) authority: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

/// Why an option was not taken in.
pub(crate) enum Refusal {
    /// Not one of these.
    Unknown(&'static str, &'static [&'static str]),
    Wrong(String),
    NotOurs,
}

impl RedisConfig {
    /// Reads what stands behind the scheme and before the options.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the text, which has a password.
    pub(crate) fn parse(scheme: &str, place: &str) -> Result<Self, String> {
        let (place, user, database) = Place::parse(scheme, place)?;
        Ok(Self {
            place,
            user,
            sentinel_user: User::default(),
            database,
            tls: scheme.starts_with("rediss").then(Tls::default),
            layout: Layout::Queue,
            durability: Durability::None,
        })
    }

    /// Takes in an option.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        match key {
            "layout" => {
                self.layout = match value {
                    "queue" => Layout::Queue,
                    "plain" => Layout::Plain,
                    "redisson" => Layout::Redisson,
                    _ => return Err(Refusal::Unknown("layout", LAYOUTS)),
                }
            }
            "durability" => self.durability = durability(value)?,
            "db" => {
                let number = value.parse::<u16>();
                let number = number.map_err(|_| wrong("db: not the number of a database"))?;
                self.database = number.into();
            }
            "sentinel_user" => self.sentinel_user.name = Some(value.to_owned()),
            "sentinel_password" => self.sentinel_user.password = Some(value.to_owned()),
            "ca" | "cert" | "key" => {
                let Some(tls) = &mut self.tls else {
                    return Err(wrong(&format!("{key}: is for TLS; write rediss:")));
                };
                let file = match key {
                    "ca" => &mut tls.authority,
                    "cert" => &mut tls.certificate,
                    _ => &mut tls.key,
                };
                *file = Some(value.into());
            }
            _ => return Err(Refusal::NotOurs),
        }
        Ok(())
    }

    /// Whether the options fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        if matches!(self.place, Place::Cluster(_)) && self.database != 0 {
            return Err("a cluster has database 0 only".into());
        }
        let tls = self.tls.as_ref();
        if tls.is_some_and(|tls| tls.certificate.is_some() != tls.key.is_some()) {
            return Err("cert and key go together".into());
        }
        Ok(())
    }

    /// The servers for people: no user, no password.
    pub(super) fn label(&self) -> String {
        let hosts = |hosts: &[Host]| {
            let hosts: Vec<_> = hosts.iter().map(Host::to_string).collect();
            hosts.join(",")
        };
        let database = match self.database {
            0 => String::new(),
            number => format!("/{number}"),
        };
        match &self.place {
            Place::One(host) => format!("redis {host}{database}"),
            Place::Socket(path) => format!("redis {}{database}", path.display()),
            Place::Sentinel { sentinels, master } => {
                let sentinels = hosts(sentinels);
                format!("redis master {master}{database} of sentinels {sentinels}")
            }
            Place::Cluster(seeds) => format!("redis cluster {}", hosts(seeds)),
        }
    }
}

fn wrong(why: &str) -> Refusal {
    Refusal::Wrong(why.to_owned())
}

fn durability(value: &str) -> Result<Durability, Refusal> {
    match value {
        "none" => Ok(Durability::None),
        "fsync" => Ok(Durability::Fsync),
        _ => {
            let count = value.strip_prefix("replicas:").map(str::parse::<u32>);
            match count {
                Some(Ok(count @ 1..=100)) => Ok(Durability::Replicas(count)),
                Some(_) => Err(wrong("durability: write replicas:K with K from 1 to 100")),
                None => Err(Refusal::Unknown("durability", DURABILITIES)),
            }
        }
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User")
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisConfig({})", self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(scheme: &str, place: &str) -> String {
        RedisConfig::parse(scheme, place).unwrap().label()
    }

    #[test]
    fn a_label_names_the_servers_and_hides_the_password() {
        assert_eq!(
            label("redis", "//ann:hunter2@db.example:7000/3"),
            "redis db.example:7000/3"
        );
        assert_eq!(label("redis", "//localhost"), "redis localhost:6379");
        assert_eq!(label("redis", "//[::1]:7000"), "redis [::1]:7000");
        assert_eq!(label("unix", "/run/redis.sock"), "redis /run/redis.sock");
        assert_eq!(
            label("redis+sentinel", "//:hunter2@a,b:7000/main/2"),
            "redis master main/2 of sentinels a:26379,b:7000"
        );
        assert_eq!(
            label("redis+cluster", "//a,b"),
            "redis cluster a:6379,b:6379"
        );
        let config = RedisConfig::parse("redis", "//ann:hunter2@db").unwrap();
        assert_eq!(config.user.password.as_deref(), Some("hunter2"));
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn options_that_do_not_fit_together_are_refused() {
        let mut config = RedisConfig::parse("redis+cluster", "//a").unwrap();
        assert!(config.check().is_ok());
        assert!(config.set("db", "2").is_ok());
        assert!(config.check().unwrap_err().contains("database 0 only"));
        let mut config = RedisConfig::parse("rediss", "//a").unwrap();
        assert!(config.set("cert", "a.pem").is_ok());
        assert!(config.check().unwrap_err().contains("cert and key"));
        let mut config = RedisConfig::parse("redis", "//a").unwrap();
        assert!(
            matches!(config.set("ca", "a.pem"), Err(Refusal::Wrong(why)) if why.contains("rediss"))
        );
    }

    #[test]
    fn a_durability_names_how_many_replicas() {
        assert!(matches!(
            durability("replicas:2"),
            Ok(Durability::Replicas(2))
        ));
        assert!(matches!(durability("fsync"), Ok(Durability::Fsync)));
        assert!(matches!(durability("replicas:0"), Err(Refusal::Wrong(_))));
        assert!(matches!(durability("replica"), Err(Refusal::Unknown(..))));
    }
}
