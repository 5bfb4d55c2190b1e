//! Whether a server can be used for locks, by its `INFO`.

use ::redis::{RedisError, make_extension_error};

const OLDEST: (u32, u32) = (6, 2);
/// How our own refusals start, so that they are told apart from the server's.
pub(super) const UNFIT: &str = "UNFIT";
pub(super) const NOT_NOW: &str = "NOTNOW";

/// What kind of server the URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Single,
    Cluster,
}

/// A value of the server's `INFO`.
pub(super) fn value<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
}

/// The server's version, if it tells.
pub(super) fn version(info: &str) -> (u32, u32) {
    let version = value(info, "redis_version").unwrap_or("");
    let mut parts = version.split('.').map_while(|part| part.parse().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Says why this server cannot be used: never (`UNFIT`) or now (`NOTNOW`).
pub(super) fn check(info: &str, mode: Mode) -> Result<(), RedisError> {
    let refuse = |code: &str, why: String| Err(make_extension_error(code.into(), Some(why)));
    let found = value(info, "redis_mode").unwrap_or("standalone");
    if version(info) < OLDEST {
        let version = value(info, "redis_version").unwrap_or("of an unknown version");
        let (major, minor) = OLDEST;
        let why = format!("the server is Redis {version}; {major}.{minor} or newer is needed");
        return refuse(UNFIT, why);
    }
    match (found, mode) {
        ("sentinel", _) => {
            let why = "this is a sentinel; write redis+sentinel://HOST:PORT/MASTER-NAME";
            return refuse(UNFIT, why.into());
        }
        ("cluster", Mode::Single) => {
            let why = "this is a node of a cluster; write redis+cluster: instead of redis:";
            return refuse(UNFIT, why.into());
        }
        ("standalone", Mode::Cluster) => {
            let why = "this is no cluster; write redis: instead of redis+cluster:";
            return refuse(UNFIT, why.into());
        }
        _ => {}
    }
    if value(info, "loading") == Some("1") {
        return refuse(NOT_NOW, "the server is still loading its data".into());
    }
    if value(info, "role").is_some_and(|role| role != "master") {
        let why = "the server is a read-only replica; name its master";
        return refuse(NOT_NOW, why.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_fit_is_refused_with_the_reason() {
        let good = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nloading:0\r\nrole:master\r\n";
        let why = |info: &str, mode| check(info, mode).unwrap_err().to_string();
        assert!(check(good, Mode::Single).is_ok());
        assert!(why(good, Mode::Cluster).contains("no cluster"));
        let single = |from, to| why(&good.replace(from, to), Mode::Single);
        assert!(single("7.0.15", "6.0.9").contains("Redis 6.0.9; 6.2 or newer"));
        assert!(single("standalone", "cluster").contains("write redis+cluster:"));
        assert!(single("standalone", "sentinel").contains("redis+sentinel:"));
        assert!(single("loading:0", "loading:1").contains("loading"));
        assert!(single("master", "slave").contains("replica"));
        assert_eq!(version("redis_version:7.2.4\r\n"), (7, 2));
    }
}
