//! What the server or the way to it refused. Every foreign error is judged
//! here, by its code.

use ::redis::{ErrorKind as RedisKind, RedisError};

use super::fit::{NOT_NOW, UNFIT};
use crate::error::{Effect, Error, ErrorKind};

/// The error of a request that changes something.
pub(super) fn fault(error: RedisError, doing: String, store: &str) -> Error {
    let (kind, effect, why) = judge(&error);
    Error::new(kind, doing, why)
        .on(store)
        .effect_is(effect)
        .from_source(error)
}

fn judge(error: &RedisError) -> (ErrorKind, Effect, String) {
    let text = error.to_string();
    if let Some(code) = error.code() {
        let (kind, why) = refusal(code, error.detail().unwrap_or(""));
        return (kind, Effect::None, why);
    }
    match error.kind() {
        RedisKind::AuthenticationFailed => (ErrorKind::Denied, Effect::None, text),
        RedisKind::InvalidClientConfig => (ErrorKind::Config, Effect::None, text),
        RedisKind::Io if text.contains("No such file") => (
            ErrorKind::Unavailable,
            Effect::None,
            "there is no such socket file; is the server running?".into(),
        ),
        RedisKind::Io if error.is_connection_refusal() => (
            ErrorKind::Unavailable,
            Effect::None,
            "connection refused".into(),
        ),
        RedisKind::Io if error.is_timeout() => (
            ErrorKind::Unavailable,
            Effect::Unknown,
            "the server does not answer".into(),
        ),
        // The rest may have happened after the request had left.
        _ => (ErrorKind::Unavailable, Effect::Unknown, text),
    }
}

/// What the server's error code means. Before Redis 7 an error inside a script
/// comes as `ERR` with the code in its text.
fn refusal(code: &str, detail: &str) -> (ErrorKind, String) {
    let inner = [
        "WRONGTYPE",
        "OOM",
        "READONLY",
        "NOPERM",
        "MISCONF",
        "NOREPLICAS",
    ];
    let inner = inner.into_iter().find(|inner| detail.contains(inner));
    match (code, inner) {
        ("NOAUTH", _) => (
            ErrorKind::Denied,
            "the server wants a password: redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST"
                .into(),
        ),
        ("WRONGPASS", _) => (ErrorKind::Denied, "wrong user or password".into()),
        ("NOPERM", _) | (_, Some("NOPERM")) => (
            ErrorKind::Denied,
            format!(
                "the user may not do this: {detail}; the keys, channels and commands that it needs are in docs/stores/redis.md"
            ),
        ),
        ("LOADING" | "BUSYLOADING", _) => (
            ErrorKind::Unavailable,
            "the server is still loading its data".into(),
        ),
        ("READONLY", _) | (_, Some("READONLY")) => (
            ErrorKind::Unavailable,
            "the server is a read-only replica; name its master".into(),
        ),
        ("OOM", _) | (_, Some("OOM")) => (
            ErrorKind::Unavailable,
            "the server is out of memory: raise its maxmemory".into(),
        ),
        ("MISCONF", _) | (_, Some("MISCONF")) => (
            ErrorKind::Unavailable,
            "the server cannot save to disk and takes no writes; look at its log".into(),
        ),
        ("NOREPLICAS", _) | (_, Some("NOREPLICAS")) => (
            ErrorKind::Unavailable,
            "the server lacks the replicas it wants before it takes writes".into(),
        ),
        ("WRONGTYPE", _) | (_, Some("WRONGTYPE")) => (
            ErrorKind::Config,
            "the lock's key has another type: somebody else uses keys that start with lh:".into(),
        ),
        (UNFIT, _) => (ErrorKind::Config, detail.to_owned()),
        (NOT_NOW, _) => (ErrorKind::Unavailable, detail.to_owned()),
        ("MOVED" | "ASK" | "CROSSSLOT", _) => (
            ErrorKind::Config,
            "this is a node of a cluster; write redis+cluster: instead of redis:".into(),
        ),
        ("CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN", _) => (
            ErrorKind::Unavailable,
            "a part of the cluster is down or moves; `redis-cli --cluster check` says which".into(),
        ),
        ("ERR", _) if detail.contains("unknown command") && detail.contains("SENTINEL") => (
            ErrorKind::Config,
            "this is no sentinel; write redis: instead of redis+sentinel:".into(),
        ),
        ("NOPROTO", _) => (
            ErrorKind::Config,
            "the server is older than Redis 6.2".into(),
        ),
        ("BUSY", _) => (
            ErrorKind::Unavailable,
            "the server is busy with a script of somebody else".into(),
        ),
        _ => (
            ErrorKind::Unavailable,
            format!("{code} {detail}").trim().to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_inside_a_script_is_judged_like_one_outside() {
        let (kind, _) = refusal("WRONGTYPE", "Operation against a key");
        assert_eq!(kind, ErrorKind::Config);
        let (kind, _) = refusal("ERR", "Error running script: -WRONGTYPE Operation");
        assert_eq!(kind, ErrorKind::Config);
        let (kind, why) = refusal("OOM", "command not allowed");
        assert_eq!(
            (kind, why.contains("maxmemory")),
            (ErrorKind::Unavailable, true)
        );
        assert_eq!(refusal("WRONGPASS", "").0, ErrorKind::Denied);
        assert_eq!(refusal("SOMETHING", "new").1, "SOMETHING new");
    }
}
