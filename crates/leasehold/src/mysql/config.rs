//! What a MySQL or MariaDB URL says.

use std::fmt;

use percent_encoding::percent_decode_str;
use sqlx_core::connection::ConnectOptions;
use sqlx_mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::tls::Tls;

/// The URL schemes of this store.
pub(crate) const SCHEMES: &[&str] = &["mysql", "mariadb"];
/// Its options beside those of every store.
pub(crate) const OPTIONS: &[&str] = &[
    "schema",
    "connections",
    "mode",
    "ssl-mode",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
];

const SSL_MODES: &[&str] = &[
    "disabled",
    "preferred",
    "required",
    "verify-ca",
    "verify-identity",
];

const MODES: &[&str] = &["lease", "session"];

/// The longest prefix of a table that leaves room for the rest of its name.
const LONGEST_SCHEMA: usize = 48;

/// How to reach a database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MysqlConfig {
    host: String,
    port: Option<u16>,
    user: Option<String>,
    password: Option<String>,
    pub(super) database: Option<String>,
    pub(super) tls: Tls,
    pub(super) schema: String,
    pub(super) connections: usize,
    /// Sessions are tied to a connection.
    pub(super) is_tied: bool,
}

/// Why an option was not taken in.
#[derive(Debug)]
pub(crate) enum Refusal {
    Unknown(&'static str, &'static [&'static str]),
    Wrong(String),
}

impl MysqlConfig {
    /// Reads what stands behind the scheme and before the options.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the text, which has a password.
    pub(crate) fn parse(scheme: &str, place: &str) -> Result<Self, String> {
        let place = place.strip_prefix("//").ok_or_else(|| {
            format!("{scheme}: names no server; write {scheme}://USER@HOST/DATABASE")
        })?;
        let (place, database) = match place.split_once('/') {
            Some((place, database)) => (place, Some(database)),
            None => (place, None),
        };
        let (user, host) = match place.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, place),
        };
        let (user, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            Some((user, password)) => (filled(user)?, filled(password)?),
            None => (None, None),
        };
        if host.contains(',') {
            return Err("one host only; name the one that takes writes".into());
        }
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse::<u16>().ok().filter(|port| *port != 0);
                let port = port.ok_or("the port is not a number from 1 to 65535")?;
                (host, Some(port))
            }
            _ => (host, None),
        };
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.contains(':') && !is_bracketed {
            return Err("the host is not a name or an address; write [::1]:3306 for IPv6".into());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            host: filled(host)?.unwrap_or_else(|| "localhost".into()),
            port,
            user,
            password,
            database: database.map(filled).transpose()?.flatten(),
            tls: Tls::default(),
            schema: "leasehold".into(),
            connections: 8,
            is_tied: false,
        })
    }

    /// Takes in an option.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        match key {
            "schema" if value.is_empty() || value.len() > LONGEST_SCHEMA => {
                let why = format!("schema: a name has 1 to {LONGEST_SCHEMA} bytes");
                return Err(Refusal::Wrong(why));
            }
            "schema" if value.chars().any(char::is_control) => {
                return Err(Refusal::Wrong("schema: has a control character".into()));
            }
            "schema" => self.schema = value.into(),
            "connections" => {
                let number = value.parse().ok().filter(|n| (1..=1000).contains(n));
                let wrong = || Refusal::Wrong("connections: write a number from 1 to 1000".into());
                self.connections = number.ok_or_else(wrong)?;
            }
            "mode" if MODES.contains(&value) => self.is_tied = value == "session",
            "mode" => return Err(Refusal::Unknown("mode", MODES)),
            "ssl-mode" if SSL_MODES.contains(&value) => self.tls.mode = Some(value.into()),
            "ssl-mode" => return Err(Refusal::Unknown("ssl-mode", SSL_MODES)),
            "ssl-ca" => self.tls.authority = Some(value.into()),
            "ssl-cert" => self.tls.certificate = Some(value.into()),
            "ssl-key" => self.tls.key = Some(value.into()),
            _ => return Err(Refusal::Unknown("option", OPTIONS)),
        }
        Ok(())
    }

    /// Whether the options fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            return Err("ssl-cert and ssl-key go together".into());
        }
        if self.database.is_none() {
            return Err("names no database; write mysql://USER@HOST/DATABASE".into());
        }
        Ok(())
    }

    /// The same in the client's words.
    pub(super) fn options(&self) -> MySqlConnectOptions {
        let mut options = MySqlConnectOptions::new();
        options = match self.host.starts_with('/') {
            true => options.socket(&self.host),
            false => options.host(&self.host),
        };
        if let Some(port) = self.port {
            options = options.port(port);
        }
        if let Some(user) = &self.user {
            options = options.username(user);
        }
        if let Some(password) = &self.password {
            options = options.password(password);
        }
        if let Some(database) = &self.database {
            options = options.database(database);
        }
        if let Some(mode) = self.tls.mode.as_deref().and_then(ssl_mode) {
            options = options.ssl_mode(mode);
        }
        if let Some(file) = &self.tls.authority {
            options = options.ssl_ca(file);
        }
        if let Some(file) = &self.tls.certificate {
            options = options.ssl_client_cert(file);
        }
        if let Some(file) = &self.tls.key {
            options = options.ssl_client_key(file);
        }
        // Tickets are in the statements, and they are nobody else's business.
        options.disable_statement_logging()
    }

    /// The database for people: no user, no password.
    pub(super) fn label(&self) -> String {
        label(&self.options())
    }
}

pub(super) fn label(options: &MySqlConnectOptions) -> String {
    let database = options.get_database().unwrap_or_default();
    match options.get_socket() {
        Some(socket) => format!("mysql {}/{database}", socket.display()),
        None => {
            let (host, port) = (options.get_host(), options.get_port());
            format!("mysql {host}:{port}/{database}")
        }
    }
}

fn ssl_mode(name: &str) -> Option<MySqlSslMode> {
    name.replace('-', "_").parse().ok()
}

fn filled(text: &str) -> Result<Option<String>, String> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| "a percent-encoded part is not valid UTF-8")?;
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

impl fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MysqlConfig({}, {})", self.label(), self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(place: &str) -> String {
        MysqlConfig::parse("mysql", place).unwrap_err()
    }

    #[test]
    fn a_url_names_a_database_and_hides_the_password() {
        let config = MysqlConfig::parse("mysql", "//ann:hunter%202@db:7000/shop").unwrap();
        assert_eq!(config.label(), "mysql db:7000/shop");
        assert_eq!(config.password.as_deref(), Some("hunter 2"));
        assert!(!format!("{config:?}").contains("hunter"));
        let config = MysqlConfig::parse("mysql", "//ann@[::1]:1/a%2Fb").unwrap();
        assert_eq!((config.host.as_str(), config.port), ("::1", Some(1)));
        assert_eq!(config.database.as_deref(), Some("a/b"));
        let config = MysqlConfig::parse("mysql", "//ann@%2Frun%2Fmysqld/x").unwrap();
        assert_eq!(config.label(), "mysql /run/mysqld/x");
    }

    #[test]
    fn a_wrong_place_is_named_without_the_password() {
        assert!(why("").contains("names no server"));
        assert!(why("//hunter2:x@a:http/d").contains("port"));
        assert!(why("//a,b/d").contains("one host"));
        assert!(why("//::1/d").contains("port") || why("//::1/d").contains("IPv6"));
        assert!(!why("//hunter2:x@a:http/d").contains("hunter2"));
    }

    #[test]
    fn options_are_checked() {
        let mut config = MysqlConfig::parse("mysql", "//a/d").unwrap();
        assert!(config.set("schema", "locks").is_ok());
        assert!(matches!(config.set("schema", ""), Err(Refusal::Wrong(_))));
        assert!(matches!(
            config.set("connections", "0"),
            Err(Refusal::Wrong(_))
        ));
        assert!(matches!(
            config.set("ssl-mode", "of"),
            Err(Refusal::Unknown(..))
        ));
        assert!(matches!(config.set("db", "x"), Err(Refusal::Unknown(..))));
        assert!(config.set("ssl-cert", "a.pem").is_ok());
        assert!(config.check().unwrap_err().contains("go together"));
        let config = MysqlConfig::parse("mysql", "//a").unwrap();
        assert!(config.check().unwrap_err().contains("no database"));
    }

    #[test]
    fn a_whole_url_is_read_with_its_options() {
        use crate::config::Config;
        let why = |url: &str| Config::parse(url).unwrap_err().to_string();
        let url = "mariadb://ann:hunter2@db/shop?schema=locks&ttl=5s";
        let config = Config::parse(url).unwrap();
        assert_eq!(config.store.scheme(), "mysql");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(why("mysql://db/x?shema=a").contains("did you mean schema?"));
        assert!(why("mysql://db/x?ssl-mode=require").contains("did you mean required?"));
        assert!(why("mysql://db/x?mode=sesion").contains("did you mean session?"));
        assert!(why("mysq://db/x").contains("did you mean mysql?"));
    }
}
