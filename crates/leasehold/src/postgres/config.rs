//! What a PostgreSQL URL says.

use std::fmt;

use percent_encoding::percent_decode_str;
use sqlx_core::connection::ConnectOptions;
use sqlx_postgres::{PgConnectOptions, PgSslMode};

use super::route::Route;
use crate::tls::Tls;

/// The URL schemes of this store.
pub(crate) const SCHEMES: &[&str] = &["postgres", "postgresql"];
/// Its options beside those of every store.
pub(crate) const OPTIONS: &[&str] = &[
    "schema",
    "connections",
    "mode",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
];

const SSL_MODES: &[&str] = &[
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
];

const MODES: &[&str] = &["lease", "session"];

/// What a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Rows that have to be renewed.
    Lease,
    /// Something that a connection has.
    Session,
}

/// The longest name of a schema that PostgreSQL does not cut off.
const LONGEST_SCHEMA: usize = 63;

/// How to reach a database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PostgresConfig {
    /// At least one.
    servers: Vec<Server>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    pub(super) tls: Tls,
    pub(super) schema: String,
    pub(super) connections: usize,
    pub(super) mode: Mode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    host: String,
    port: Option<u16>,
}

/// Why an option was not taken in.
#[derive(Debug)]
pub(crate) enum Refusal {
    Unknown(&'static str, &'static [&'static str]),
    Wrong(String),
    NotOurs,
}

impl PostgresConfig {
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
        let servers: Result<_, String> = host.split(',').map(Server::parse).collect();
        let servers: Vec<Server> = servers?;
        if servers.len() > 1 && servers.iter().any(|server| server.host.is_empty()) {
            return Err("a host between commas is missing".into());
        }
        Ok(Self {
            servers,
            user,
            password,
            database: database.map(filled).transpose()?.flatten(),
            tls: Tls::default(),
            schema: "leasehold".into(),
            connections: 8,
            mode: Mode::Lease,
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
            "mode" => {
                self.mode = match value {
                    "lease" => Mode::Lease,
                    "session" => Mode::Session,
                    _ => return Err(Refusal::Unknown("mode", MODES)),
                }
            }
            "sslmode" if SSL_MODES.contains(&value) => self.tls.mode = Some(value.into()),
            "sslmode" => return Err(Refusal::Unknown("sslmode", SSL_MODES)),
            "sslrootcert" => self.tls.authority = Some(value.into()),
            "sslcert" => self.tls.certificate = Some(value.into()),
            "sslkey" => self.tls.key = Some(value.into()),
            _ => return Err(Refusal::NotOurs),
        }
        Ok(())
    }

    /// Whether the options fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            return Err("sslcert and sslkey go together".into());
        }
        Ok(())
    }

    /// The servers in the client's words.
    pub(super) fn route(&self) -> Route {
        let servers = self.servers.iter();
        Route::new(servers.map(|server| self.options(server)).collect())
    }

    /// The same in the client's words. What the URL leaves open is taken from
    /// the environment, as other clients do.
    fn options(&self, server: &Server) -> PgConnectOptions {
        let mut options = PgConnectOptions::new();
        let host = match server.host.as_str() {
            "" => "localhost",
            host => host,
        };
        options = match host.starts_with('/') {
            true => options.socket(host),
            false => options.host(host),
        };
        if let Some(port) = server.port {
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
            options = options.ssl_root_cert(file);
        }
        if let Some(file) = &self.tls.certificate {
            options = options.ssl_client_cert(file);
        }
        if let Some(file) = &self.tls.key {
            options = options.ssl_client_key(file);
        }
        // Tickets are in the statements, and they are nobody else's business.
        options
            .application_name("leasehold")
            .disable_statement_logging()
    }

    /// The database for people: no user, no password.
    pub(super) fn label(&self) -> String {
        let servers: Vec<_> = self.servers.iter().map(|s| self.options(s)).collect();
        label(&servers)
    }
}

impl Server {
    fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse::<u16>().ok().filter(|port| *port != 0);
                let port = port.ok_or("the port is not a number from 1 to 65535")?;
                (host, Some(port))
            }
            _ => (text, None),
        };
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        if host.contains(':') && !is_bracketed {
            return Err("the host is not a name or an address; write [::1]:5432 for IPv6".into());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = filled(host)?.unwrap_or_default();
        Ok(Self { host, port })
    }
}

/// The database for people, on these servers.
pub(super) fn label(servers: &[PgConnectOptions]) -> String {
    let database = servers.first().and_then(|options| options.get_database());
    let user = servers.first().map(PgConnectOptions::get_username);
    let places = servers.iter().map(|options| match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    });
    let (places, database) = (places.collect::<Vec<_>>(), database.or(user));
    format!(
        "postgres {}/{}",
        places.join(","),
        database.unwrap_or_default()
    )
}

fn ssl_mode(name: &str) -> Option<PgSslMode> {
    name.parse().ok()
}

fn filled(text: &str) -> Result<Option<String>, String> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| "a percent-encoded part is not valid UTF-8")?;
    Ok((!text.is_empty()).then(|| text.into_owned()))
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresConfig({}, {})", self.label(), self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(place: &str) -> String {
        PostgresConfig::parse("postgres", place).unwrap_err()
    }

    #[test]
    fn a_url_names_a_database_and_hides_the_password() {
        let config = PostgresConfig::parse("postgres", "//ann:hunter%202@db:7000/shop").unwrap();
        assert_eq!(config.label(), "postgres db:7000/shop");
        assert_eq!(config.password.as_deref(), Some("hunter 2"));
        assert!(!format!("{config:?}").contains("hunter"));
        let config = PostgresConfig::parse("postgres", "//ann@[::1]:1/a%2Fb").unwrap();
        let server = &config.servers[0];
        assert_eq!((server.host.as_str(), server.port), ("::1", Some(1)));
        assert_eq!(config.database.as_deref(), Some("a/b"));
        let config = PostgresConfig::parse("postgres", "//ann@%2Frun%2Fpg/x").unwrap();
        assert_eq!(config.label(), "postgres /run/pg/x");
        let config = PostgresConfig::parse("postgres", "//ann:x@a,[::1]:7,b:8/shop").unwrap();
        assert_eq!(config.label(), "postgres a:5432,::1:7,b:8/shop");
    }

    #[test]
    fn a_wrong_place_is_named_without_the_password() {
        assert!(why("").contains("names no server"));
        assert!(why("//hunter2:x@a:http/d").contains("port"));
        assert!(why("//a,,b/d").contains("between commas"));
        assert!(why("//::1/d").contains("port") || why("//::1/d").contains("IPv6"));
        assert!(!why("//hunter2:x@a:http/d").contains("hunter2"));
    }

    #[test]
    fn options_are_checked() {
        let mut config = PostgresConfig::parse("postgres", "//a/d").unwrap();
        assert!(config.set("schema", "locks").is_ok());
        assert!(matches!(config.set("schema", ""), Err(Refusal::Wrong(_))));
        assert!(matches!(
            config.set("connections", "0"),
            Err(Refusal::Wrong(_))
        ));
        assert!(matches!(
            config.set("sslmode", "of"),
            Err(Refusal::Unknown(..))
        ));
        assert!(matches!(config.set("db", "x"), Err(Refusal::NotOurs)));
        assert!(config.set("sslcert", "a.pem").is_ok());
        assert!(config.check().unwrap_err().contains("go together"));
    }

    #[test]
    fn a_whole_url_is_read_with_its_options() {
        use crate::config::Config;
        let why = |url: &str| Config::parse(url).unwrap_err().to_string();
        let url = "postgresql://ann:hunter2@db/shop?schema=locks&ttl=5s";
        let config = Config::parse(url).unwrap();
        assert_eq!(config.store.scheme(), "postgres");
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(why("postgres://db/x?shema=a").contains("did you mean schema?"));
        assert!(why("postgres://db/x?sslmode=requir").contains("did you mean require?"));
        assert!(why("postgre://db/x").contains("did you mean postgres?"));
    }
}
