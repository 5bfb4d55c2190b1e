//! What a ZooKeeper URL says.

use std::fmt;

use percent_encoding::percent_decode_str;

use super::dialect::Layout;

/// The URL schemes of this store.
pub(crate) const SCHEMES: &[&str] = &["zk"];
/// Its options beside those of every store.
pub(crate) const OPTIONS: &[&str] = &["layout"];

const PORT: u16 = 2181;

/// How to reach the servers of an ensemble.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ZookeeperConfig {
    /// `host:port` of each, in the order of the URL.
    pub(super) servers: Vec<String>,
    /// Empty, or a path that starts with a slash and ends with none.
    pub(super) chroot: String,
    /// `user:password`, for the scheme `digest`.
    pub(super) user: Option<User>,
    pub(super) layout: Layout,
}

/// Who we are.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct User(pub(super) Vec<u8>);

/// Why an option was not taken in.
#[derive(Debug)]
pub(crate) enum Refusal {
    Unknown(&'static str, &'static [&'static str]),
    NotOurs,
}

impl ZookeeperConfig {
    /// Reads what stands behind the scheme and before the options.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the text, which has a password.
    pub(crate) fn parse(place: &str) -> Result<Self, String> {
        let place = place
            .strip_prefix("//")
            .ok_or("zk: names no server; write zk://HOST:PORT")?;
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(User::parse(user)?), place),
            None => (None, place),
        };
        let (hosts, chroot) = match place.split_once('/') {
            Some((hosts, chroot)) => (hosts, chroot),
            None => (place, ""),
        };
        let servers: Result<Vec<_>, _> = hosts.split(',').map(server).collect();
        Ok(Self {
            servers: servers?,
            chroot: read_chroot(chroot)?,
            user,
            layout: Layout::Curator,
        })
    }

    /// Takes in an option.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        if key != "layout" {
            return Err(Refusal::NotOurs);
        }
        let layout = Layout::named(value);
        self.layout = layout.ok_or(Refusal::Unknown("layout", Layout::NAMES))?;
        Ok(())
    }

    /// The servers for people: no user, no password.
    pub(super) fn label(&self) -> String {
        format!("zookeeper {}{}", self.servers.join(","), self.chroot)
    }
}

impl User {
    fn parse(text: &str) -> Result<Self, String> {
        let has_both = text
            .split_once(':')
            .is_some_and(|(name, _)| !name.is_empty());
        if !has_both {
            return Err("a user needs a password; write USER:PASSWORD@".into());
        }
        Ok(Self(percent_decode_str(text).collect()))
    }
}

fn read_chroot(text: &str) -> Result<String, String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "the chroot is not valid UTF-8")?;
    if decoded.is_empty() {
        return Ok(String::new());
    }
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    if decoded.split('/').any(is_odd) || decoded.chars().any(char::is_control) {
        return Err("the chroot is not a path; write zk://HOST:PORT/PATH".into());
    }
    Ok(format!("/{decoded}"))
}

/// `host`, `host:port`, `[::1]:port`.
fn server(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a host is empty; write zk://HOST:PORT,HOST:PORT".into());
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
        return Err("a host is not a name or an address; write [::1]:2181 for IPv6".into());
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

impl fmt::Debug for ZookeeperConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZookeeperConfig({})", self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(place: &str) -> String {
        ZookeeperConfig::parse(place).unwrap_err()
    }

    #[test]
    fn a_url_names_servers_and_a_chroot_and_hides_the_password() {
        let config =
            ZookeeperConfig::parse("//ann:hunter%202@a,b:7000,[::1]:1/app/locks/").unwrap();
        assert_eq!(config.label(), "zookeeper a:2181,b:7000,[::1]:1/app/locks");
        assert_eq!(config.user.as_ref().unwrap().0, b"ann:hunter 2");
        assert!(!format!("{config:?} {:?}", config.user).contains("hunter"));
        assert_eq!(ZookeeperConfig::parse("//a/").unwrap().chroot, "");
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
        assert!(why("//a//b").contains("chroot"));
        assert!(why("//a/../b").contains("chroot"));
        assert!(why("//hunter2@a").contains("USER:PASSWORD"));
        assert!(!why("//hunter2@a").contains("hunter2"));
    }

    #[test]
    fn a_layout_is_one_of_two() {
        let mut config = ZookeeperConfig::parse("//a").unwrap();
        assert!(config.set("layout", "kazoo").is_ok());
        assert_eq!(config.layout, Layout::Kazoo);
        assert!(matches!(
            config.set("layout", "consul"),
            Err(Refusal::Unknown(..))
        ));
        assert!(matches!(config.set("db", "1"), Err(Refusal::NotOurs)));
    }
}
