//! What an etcd URL says.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

/// The URL schemes of this store.
pub(crate) const SCHEMES: &[&str] = &["etcd", "etcds"];
/// Its options beside those of every store.
pub(crate) const OPTIONS: &[&str] = &["ca", "cert", "key"];

const PORT: u16 = 2379;

/// How to reach the members of a cluster.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EtcdConfig {
    /// `host:port` of each, in the order of the URL.
    pub(super) members: Vec<String>,
    pub(super) user: Option<User>,
    pub(super) tls: Option<Tls>,
}

/// Who we are.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
}

/// The files that TLS needs beside the certificates of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) authority: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

/// Why an option was not taken in.
#[derive(Debug)]
pub(crate) enum Refusal {
    Wrong(String),
    NotOurs,
}

impl EtcdConfig {
    /// Reads what stands behind the scheme and before the options.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the text, which has a password.
    pub(crate) fn parse(scheme: &str, place: &str) -> Result<Self, String> {
        let place = place
            .strip_prefix("//")
            .ok_or_else(|| format!("{scheme}: names no server; write {scheme}://HOST:PORT"))?;
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (Some(User::parse(user)?), hosts),
            None => (None, place),
        };
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        if hosts.contains('/') {
            return Err("etcd has no databases; nothing may follow the hosts but options".into());
        }
        let members: Result<Vec<_>, _> = hosts.split(',').map(member).collect();
        Ok(Self {
            members: members?,
            user,
            tls: (scheme == "etcds").then(Tls::default),
        })
    }

    /// Takes in an option.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        if !OPTIONS.contains(&key) {
            return Err(Refusal::NotOurs);
        }
        let Some(tls) = &mut self.tls else {
            return Err(Refusal::Wrong(format!("{key}: is for TLS; write etcds:")));
        };
        let file = match key {
            "ca" => &mut tls.authority,
            "cert" => &mut tls.certificate,
            _ => &mut tls.key,
        };
        *file = Some(value.into());
        Ok(())
    }

    /// Whether the options fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        let tls = self.tls.as_ref();
        if tls.is_some_and(|tls| tls.certificate.is_some() != tls.key.is_some()) {
            return Err("cert and key go together".into());
        }
        Ok(())
    }

    /// The members for people: no user, no password.
    pub(super) fn label(&self) -> String {
        format!("etcd {}", self.members.join(","))
    }
}

impl User {
    fn parse(text: &str) -> Result<Self, String> {
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8();
            text.map(String::from)
                .map_err(|_| "the user or the password is not valid UTF-8".to_owned())
        };
        let (name, password) = text
            .split_once(':')
            .ok_or("a user needs a password; write USER:PASSWORD@")?;
        if name.is_empty() {
            return Err("the password has no user; write USER:PASSWORD@".into());
        }
        Ok(Self {
            name: decoded(name)?,
            password: decoded(password)?,
        })
    }
}

/// `host`, `host:port`, `[::1]:port`.
fn member(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a host is empty; write etcd://HOST:PORT,HOST:PORT".into());
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok()),
        _ => (text, Some(PORT)),
    };
    let port = port
        .filter(|port| *port != 0)
        .ok_or("a port is not a number from 1 to 65535")?;
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || (host.contains(':') && !is_bracketed) {
        return Err("a host is not a name or an address; write [::1]:2379 for IPv6".into());
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:%".contains(&byte);
    if !host.bytes().all(is_plain) {
        return Err("a host has a character that no host has".into());
    }
    Ok(format!("{host}:{port}"))
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User")
    }
}

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdConfig({})", self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(place: &str) -> String {
        EtcdConfig::parse("etcd", place).unwrap_err()
    }

    #[test]
    fn a_url_names_members_and_hides_the_password() {
        let config = EtcdConfig::parse("etcd", "//ann:hunter%202@a,b:7000,[::1]:1/").unwrap();
        assert_eq!(config.label(), "etcd a:2379,b:7000,[::1]:1");
        assert_eq!(config.user.as_ref().unwrap().password, "hunter 2");
        assert!(!format!("{config:?} {:?}", config.user).contains("hunter"));
    }

    #[test]
    fn a_wrong_place_is_named_without_the_password() {
        assert!(why("").contains("names no server"));
        assert!(why("//").contains("empty"));
        assert!(why("//a,").contains("empty"));
        assert!(why("//a:x").contains("port"));
        assert!(why("//a:0").contains("port"));
        assert!(why("//::1").contains("IPv6"));
        assert!(why("//a b").contains("character"));
        assert!(why("//a/3").contains("no databases"));
        assert!(why("//hunter2@a").contains("USER:PASSWORD"));
        assert!(!why("//hunter2@a").contains("hunter2"));
    }

    #[test]
    fn options_that_do_not_fit_together_are_refused() {
        let mut config = EtcdConfig::parse("etcds", "//a").unwrap();
        assert!(config.set("cert", "a.pem").is_ok());
        assert!(config.check().unwrap_err().contains("cert and key"));
        let mut config = EtcdConfig::parse("etcd", "//a").unwrap();
        assert!(
            matches!(config.set("ca", "a.pem"), Err(Refusal::Wrong(why)) if why.contains("etcds"))
        );
        assert!(matches!(config.set("db", "1"), Err(Refusal::NotOurs)));
    }
}
