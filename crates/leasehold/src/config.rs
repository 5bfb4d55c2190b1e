//! From a URL to an engine and its settings. An unknown key is an error, with
//! the nearest known one.

mod store;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::core::Settings;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Memory;
use store::SCHEMES;
pub(crate) use store::Store;

/// The options that every store has.
const OPTIONS: &[&str] = &["ttl", "margin", "patience", "label"];

const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// A URL, understood.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    pub(crate) label: String,
}

impl Config {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once(':').ok_or_else(|| no_scheme(url))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut store = Store::parse(scheme, place)?;
        let mut ttl = DEFAULT_TTL;
        let (mut margin, mut patience) = (None, None);
        let mut label = String::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value)?;
            match key {
                "ttl" => ttl = duration(key, &value)?,
                "margin" => margin = Some(duration(key, &value)?),
                "patience" => patience = Some(duration(key, &value)?),
                "label" => label = value,
                _ => store.set(key, &value)?,
            }
        }
        store.check()?;
        let settings =
            Settings::checked(ttl, margin, patience).map_err(|error| wrong(error.why()))?;
        Ok(Self {
            store,
            settings,
            label,
        })
    }

    /// The engine, connected, and the clock its sessions live by.
    pub(crate) async fn engine(&self) -> Result<(Arc<dyn Engine>, Clock)> {
        match &self.store {
            Store::Memory { name } => {
                let memory = Memory::named(name);
                let clock = memory.clock();
                Ok((memory, clock))
            }
            #[cfg(all(feature = "sqlite", target_os = "linux"))]
            Store::Sqlite { path } => {
                let config = crate::sqlite::SqliteConfig { path: path.clone() };
                let engine = crate::sqlite::SqliteEngine::connect(config).await?;
                Ok((Arc::new(engine), Clock::Boot))
            }
            #[cfg(not(feature = "sqlite"))]
            Store::Sqlite { .. } => Err(wrong(
                "sqlite: is not compiled in; enable the feature `sqlite`",
            )),
            #[cfg(all(feature = "sqlite", not(target_os = "linux")))]
            Store::Sqlite { .. } => Err(wrong("sqlite: works on Linux only for now")),
            #[cfg(feature = "redis")]
            Store::Redis(config) => {
                let engine = crate::redis::connect(config).await?;
                Ok((engine, Clock::Boot))
            }
            #[cfg(feature = "redis")]
            Store::Redlock(config) => {
                let engine = crate::redis::redlock::RedlockEngine::connect(config).await?;
                Ok((Arc::new(engine), Clock::Boot))
            }
            #[cfg(feature = "etcd")]
            Store::Etcd(config) => {
                let engine = crate::etcd::EtcdEngine::connect(config).await?;
                Ok((Arc::new(engine), Clock::Boot))
            }
            #[cfg(feature = "zookeeper")]
            Store::Zookeeper(config) => {
                let engine = crate::zookeeper::ZookeeperEngine::connect(config).await?;
                Ok((Arc::new(engine), Clock::Boot))
            }
            #[cfg(feature = "postgres")]
            Store::Postgres(config) => {
                let engine = crate::postgres::connect(config).await?;
                Ok((engine, Clock::Boot))
            }
            #[cfg(feature = "mysql")]
            Store::Mysql(config) => {
                let engine = crate::mysql::MysqlEngine::connect(config).await?;
                Ok((Arc::new(engine), Clock::Boot))
            }
        }
    }
}

/// `$LEASEHOLD_URL`, else a file in the user's state directory.
pub(crate) fn default_url() -> Result<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(url) = variable("LEASEHOLD_URL") {
        return Ok(url);
    }
    let state = match (variable("XDG_STATE_HOME"), variable("HOME")) {
        (Some(state), _) => PathBuf::from(state),
        (None, Some(home)) => PathBuf::from(home).join(".local/state"),
        (None, None) => {
            return Err(wrong(
                "no store named: set LEASEHOLD_URL, XDG_STATE_HOME or HOME",
            ));
        }
    };
    let path = state.join("leasehold/locks.db");
    let path = path
        .to_str()
        .ok_or_else(|| wrong("the state directory is not valid UTF-8"))?;
    Ok(format!("sqlite:{}", encode(path)))
}

fn wrong(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, "read the store URL", why)
}

fn no_scheme(url: &str) -> Error {
    // The text may be a password or anything else; it is not repeated.
    let known = SCHEMES.join(":, ");
    let hint = if url.contains('/') {
        "; a file is named sqlite:PATH"
    } else {
        ""
    };
    wrong(format!(
        "no scheme before a colon; known are {known}:{hint}"
    ))
}

fn unknown(what: &str, got: &str, known: &[&str]) -> Error {
    let got: String = got.chars().take(40).collect();
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known, &got), known))
        .min()
        .filter(|(distance, _)| *distance <= 3);
    let hint = match nearest {
        Some((_, nearest)) => format!("did you mean {nearest}?"),
        None => format!("known are {}", known.join(", ")),
    };
    wrong(format!("unknown {what} {got:?}; {hint}"))
}

fn duration(key: &str, value: &str) -> Result<Duration> {
    parse_duration(value).map_err(|why| wrong(format!("{key}: {why}")))
}

/// A duration as people write it: `500ms`, `5s`, `1h30m`; a bare number is in
/// seconds.
///
/// # Errors
/// Says what was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().map(Duration::try_from_secs_f64);
    match seconds {
        Some(Ok(duration)) => Ok(duration),
        Some(Err(_)) => Err(format!(
            "{text:?} is not a duration; write 500ms, 5s or 1h30m"
        )),
        None => humantime::parse_duration(text)
            .map_err(|_| format!("{text:?} is not a duration; write 500ms, 5s or 1h30m")),
    }
}

fn decode(text: &str) -> Result<String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| wrong("a percent-encoded part is not valid UTF-8"))?;
    Ok(decoded.into_owned())
}

fn encode(text: &str) -> String {
    text.replace('%', "%25").replace('?', "%3F")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn why(url: &str) -> String {
        let error = Config::parse(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}");
        error.to_string()
    }

    #[test]
    fn a_url_names_store_path_and_options() {
        let config = Config::parse("sqlite:/var/lib/my%20app/l.db?ttl=1m30s&label=a%26b").unwrap();
        assert_eq!(
            config.store,
            Store::Sqlite {
                path: "/var/lib/my app/l.db".into()
            }
        );
        assert_eq!(config.settings.ttl, Duration::from_secs(90));
        assert_eq!(config.label, "a&b");
        let config = Config::parse("sqlite:///abs.db").unwrap();
        assert_eq!(
            config.store,
            Store::Sqlite {
                path: "/abs.db".into()
            }
        );
        let config = Config::parse("memory:").unwrap();
        assert_eq!(
            config.store,
            Store::Memory {
                name: String::new()
            }
        );
        assert_eq!(config.settings.ttl, DEFAULT_TTL);
    }

    #[test]
    fn a_wrong_url_is_answered_with_the_nearest_right_one() {
        assert!(why("sqlit:x").contains("did you mean sqlite?"));
        assert!(why("sqlite:x?tll=5s").contains("did you mean ttl?"));
        assert!(why("gopher:x").contains("known are memory, sqlite, redis"));
        assert!(why("locks.db").contains("no scheme"));
        assert!(why("sqlite:").contains("names no file"));
        assert!(why("memory:?ttl=0").contains("allowed is 100ms to 1day"));
        assert!(why("memory:?ttl=25h").contains("allowed is 100ms to 1day"));
        assert!(why("memory:?ttl=soon").contains("ttl: \"soon\" is not a duration"));
        assert!(why("memory:?ttl=1s&margin=600ms").contains("at most half"));
    }

    #[test]
    #[cfg(feature = "redis")]
    fn a_redis_url_has_options_of_its_own() {
        let config = Config::parse("redis://:hunter2@host:7000/2?layout=queue&ttl=5s").unwrap();
        assert_eq!(config.store.scheme(), "redis");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(why("redis://host?layout=queu").contains("did you mean queue?"));
        assert!(why("redis://host?layot=queue").contains("did you mean layout?"));
        assert!(why("memory:?layout=queue").contains("unknown option"));
        assert!(why("redis+cluser://host").contains("did you mean redis+cluster?"));
        assert!(why("redis://host?durability=fsnc").contains("did you mean fsync?"));
        assert!(why("redis+cluster://host?db=1").contains("database 0 only"));
    }

    #[test]
    #[cfg(not(feature = "redis"))]
    fn a_store_that_is_not_compiled_in_names_its_feature() {
        assert!(why("redis://host").contains("enable the feature `redis`"));
    }

    #[test]
    #[cfg(feature = "etcd")]
    fn an_etcd_url_has_options_of_its_own() {
        let config = Config::parse("etcds://ann:hunter2@a,b?ca=ca.pem&ttl=5s").unwrap();
        assert_eq!(config.store.scheme(), "etcd");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(why("etcd://a?ca=x").contains("write etcds:"));
        assert!(why("etcds://a?cart=x").contains("did you mean cert?"));
        assert!(why("etcd://a:http").contains("a port is not a number"));
    }

    #[test]
    #[cfg(not(feature = "etcd"))]
    fn without_etcd_its_feature_is_named() {
        assert!(why("etcd://host").contains("enable the feature `etcd`"));
    }

    #[test]
    fn a_text_without_a_scheme_is_not_repeated() {
        assert!(!why("hunter2").contains("hunter2"));
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        let ms = Duration::from_millis;
        assert_eq!(parse_duration("500ms"), Ok(ms(500)));
        assert_eq!(parse_duration("1h30m"), Ok(ms(5_400_000)));
        assert_eq!(parse_duration("2.5"), Ok(ms(2500)));
        assert!(parse_duration("-1").is_err());
        assert!(parse_duration("nan").is_err());
        assert!(parse_duration("").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(url in "\\PC{0,80}") {
            let _ = Config::parse(&url);
        }

        #[test]
        fn any_path_survives_the_url(path in "[^\u{0}]{1,60}") {
            prop_assume!(!path.starts_with("//"));
            let url = format!("sqlite:{}", encode(&path));
            let config = Config::parse(&url).unwrap();
            prop_assert_eq!(config.store, Store::Sqlite { path: path.into() });
        }
    }
}
