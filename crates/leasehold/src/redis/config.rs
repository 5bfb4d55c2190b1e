//! Which server, and how the locks lie in it.

use std::fmt;

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

/// The options that this store has beside those of every store.
pub(crate) const OPTIONS: &[&str] = &["layout"];
/// The layouts there are.
pub(crate) const LAYOUTS: &[&str] = &["queue"];

/// Which server. Its `Debug` shows neither user nor password.
#[derive(Clone)]
pub(crate) struct RedisConfig {
    pub(super) connection: ConnectionInfo,
}

impl RedisConfig {
    /// Reads what stands behind `redis:` and before the options.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the text, which has a password.
    pub(crate) fn parse(place: &str) -> Result<Self, String> {
        let what_is_right =
            "write redis://[user:password@]host[:port][/database], such as redis://127.0.0.1:6379";
        if place.trim_start_matches('/').is_empty() {
            return Err(format!("redis: names no server; {what_is_right}"));
        }
        let info = format!("redis:{place}")
            .into_connection_info()
            .map_err(|error| format!("redis: {}; {what_is_right}", error.category()))?;
        let settings = info.redis_settings().clone();
        // Messages come over the connection that requests go over.
        let settings = settings.set_protocol(ProtocolVersion::RESP3);
        let connection = info.set_redis_settings(settings);
        Ok(Self { connection })
    }

    /// The server for people: no user, no password.
    pub(super) fn label(&self) -> String {
        let database = match self.connection.redis_settings().db() {
            0 => String::new(),
            number => format!("/{number}"),
        };
        match self.connection.addr() {
            ConnectionAddr::Tcp(host, port) if host.contains(':') => {
                format!("redis [{host}]:{port}{database}")
            }
            address => format!("redis {address}{database}"),
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisConfig({})", self.label())
    }
}

impl PartialEq for RedisConfig {
    fn eq(&self, other: &Self) -> bool {
        self.label() == other.label()
    }
}

impl Eq for RedisConfig {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_server_and_database_and_hides_the_password() {
        let config = RedisConfig::parse("//ann:hunter2@db.example:7000/3").unwrap();
        assert_eq!(config.label(), "redis db.example:7000/3");
        assert_eq!(
            config.connection.redis_settings().password(),
            Some("hunter2")
        );
        assert!(!format!("{config:?}").contains("hunter2"));
        assert_eq!(
            RedisConfig::parse("//localhost").unwrap().label(),
            "redis localhost:6379"
        );
    }

    #[test]
    fn a_wrong_place_is_refused_without_repeating_it() {
        assert!(
            RedisConfig::parse("")
                .unwrap_err()
                .contains("names no server")
        );
        let why = RedisConfig::parse("//:hunter2@host/notanumber").unwrap_err();
        assert!(
            why.contains("redis://[user") && !why.contains("hunter2"),
            "{why}"
        );
    }
}
