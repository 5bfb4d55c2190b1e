//! Where the servers are, as a URL says it.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::config::User;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Where the servers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    One(Host),
    Socket(PathBuf),
    /// The sentinels know where the master of that name is.
    Sentinel {
        sentinels: Vec<Host>,
        master: String,
    },
    /// Any of its nodes knows all the others.
    Cluster(Vec<Host>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            return write!(f, "[{}]:{}", self.name, self.port);
        }
        write!(f, "{}:{}", self.name, self.port)
    }
}

impl Place {
    /// The place, who we are there, and the number of the database.
    ///
    /// # Errors
    /// Says what is right; never repeats the text, which may have a password.
    pub(super) fn parse(scheme: &str, text: &str) -> Result<(Self, User, i64), String> {
        let right = || format!("write {}", right(scheme));
        if text.trim_start_matches('/').is_empty() {
            return Err(format!("{scheme}: names no server; {}", right()));
        }
        if scheme == "unix" {
            let path = text.strip_prefix("//").unwrap_or(text);
            let path = decode(path).ok_or_else(right)?;
            return Ok((Self::Socket(path.into()), User::default(), 0));
        }
        let read = || {
            let text = text.strip_prefix("//")?;
            let (place, path) = text.split_once('/').unwrap_or((text, ""));
            let (user, hosts) = match place.rsplit_once('@') {
                Some((user, hosts)) => (User::parse(user)?, hosts),
                None => (User::default(), place),
            };
            let standard = if scheme.ends_with("sentinel") {
                SENTINEL_PORT
            } else {
                PORT
            };
            let hosts = hosts.split(',').map(|host| Host::parse(host, standard));
            let hosts = hosts.collect::<Option<Vec<_>>>()?;
            let (place, database) = match (scheme.split_once('+'), &hosts[..]) {
                (None, [host]) => (Self::One(host.clone()), path),
                (Some((_, "cluster")), _) => (Self::Cluster(hosts), path),
                (Some((_, "sentinel")), _) if !path.is_empty() => {
                    let (master, database) = path.split_once('/').unwrap_or((path, ""));
                    let master = decode(master)?;
                    let sentinels = hosts;
                    (Self::Sentinel { sentinels, master }, database)
                }
                _ => return None,
            };
            let database = match database {
                "" => 0,
                number => number.parse::<u16>().ok()?.into(),
            };
            Some((place, user, database))
        };
        read().ok_or_else(|| format!("{scheme}: not a place; {}", right()))
    }
}

fn right(scheme: &str) -> &'static str {
    match scheme {
        "unix" => "unix:PATH, such as unix:/run/redis/redis.sock",
        "redis+sentinel" | "rediss+sentinel" => {
            "redis+sentinel://[user:password@]host[:port],host[:port]/MASTER-NAME[/database]"
        }
        "redis+cluster" | "rediss+cluster" => {
            "redis+cluster://[user:password@]host[:port],host[:port]"
        }
        _ => "redis://[user:password@]host[:port][/database], such as redis://127.0.0.1:6379",
    }
}

impl User {
    /// `user:password`, `:password`, or `user`.
    fn parse(text: &str) -> Option<Self> {
        let (name, password) = match text.split_once(':') {
            Some((name, password)) => (name, Some(decode(password)?)),
            None => (text, None),
        };
        let name = decode(name)?;
        let name = (!name.is_empty()).then_some(name);
        Some(Self { name, password })
    }
}

impl Host {
    /// `host:port` as one node of a cluster names another; colons in the host
    /// are not bracketed there.
    pub(super) fn of_address(address: &str) -> Option<Self> {
        let (name, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let name = name.to_owned();
        (!name.is_empty()).then_some(Self { name, port })
    }

    fn parse(text: &str, standard: u16) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, port) = rest.split_once(']')?;
                let port = match port {
                    "" => None,
                    port => Some(port.strip_prefix(':')?),
                };
                (name, port)
            }
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map_or(Some(standard), |port| port.parse().ok())?;
        let name = decode(name)?;
        (!name.is_empty()).then_some(Self { name, port })
    }
}

fn decode(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_place_is_refused_without_repeating_it() {
        let why = |scheme, place| Place::parse(scheme, place).unwrap_err();
        assert!(why("redis", "").contains("names no server"));
        for (scheme, place) in [
            ("redis", "//:hunter2@host/notanumber"),
            ("redis", "//hunter2,b"),
            ("redis", "hunter2"),
            ("redis", "//:hunter2@host:99999"),
            ("redis+sentinel", "//hunter2"),
            ("redis+cluster", "//:hunter2@"),
        ] {
            let why = why(scheme, place);
            assert!(why.contains(scheme) && !why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn a_password_may_have_any_letter() {
        let (_, user, _) = Place::parse("redis", "//a%3Ab:p%40ss:w%2Ford@host").unwrap();
        assert_eq!(user.name.as_deref(), Some("a:b"));
        assert_eq!(user.password.as_deref(), Some("p@ss:w/ord"));
    }
}
