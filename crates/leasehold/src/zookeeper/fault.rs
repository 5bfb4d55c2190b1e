//! What the server or the way to it refused. Every foreign error is judged
//! here.

use std::fmt;

use crate::error::{Effect, Error, ErrorKind};

/// What is being done when a server is met for the first time.
pub(super) const CONNECT: &str = "connect";

/// Why there is no answer, or not the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    NoNode,
    NodeExists,
    NotEmpty,
    /// Somebody wrote the node meanwhile.
    OtherVersion,
    /// The node that ours should be below goes with a session.
    BelowEphemeral,
    /// The session is over: all its claims are gone.
    SessionOver,
    /// Another connection has the session now.
    Moved,
    NotAllowed,
    /// A server that is too old.
    Unknown,
    /// The server cannot be reached. Nothing was sent.
    Unreachable(String),
    /// The connection broke before the answer came.
    Broken(String),
    /// What the server sends is not ZooKeeper's language.
    Garbled,
    Other(i32),
}

impl Refusal {
    pub(super) fn of(code: i32) -> Self {
        match code {
            -101 => Self::NoNode,
            -110 => Self::NodeExists,
            -111 => Self::NotEmpty,
            -103 => Self::OtherVersion,
            -108 => Self::BelowEphemeral,
            -112 => Self::SessionOver,
            -118 => Self::Moved,
            -102 | -114 | -115 | -119 => Self::NotAllowed,
            -6 => Self::Unknown,
            code => Self::Other(code),
        }
    }

    /// Whether the connection is of no use any more.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(self, Self::SessionOver | Self::Moved | Self::Garbled)
    }

    /// Whether it says nothing of what was asked: there was no answer.
    pub(super) fn is_of_the_connection(&self) -> bool {
        self.ends_connection() || matches!(self, Self::Unreachable(_) | Self::Broken(_))
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotAllowed => ErrorKind::Denied,
            Self::Garbled | Self::Unknown => ErrorKind::Config,
            Self::BelowEphemeral => ErrorKind::Conflict,
            _ => ErrorKind::Unavailable,
        }
    }

    /// Whether the server may have done it all the same.
    fn effect(&self) -> Effect {
        match self {
            Self::Broken(_) | Self::Garbled | Self::Moved | Self::SessionOver => Effect::Unknown,
            Self::Other(_) => Effect::Unknown,
            _ => Effect::None,
        }
    }

    pub(super) fn fault(self, doing: impl Into<String>, store: &str) -> Error {
        Error::new(self.kind(), doing, self.to_string())
            .on(store)
            .effect_is(self.effect())
            .from_source(self)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNode => "the node is not there",
            Self::NodeExists => "the node is there already",
            Self::NotEmpty => "the node has children",
            Self::OtherVersion => "the node was written meanwhile",
            Self::BelowEphemeral => {
                "the lock's node goes with a session of another program, so nothing can be below \
                 it; use another name"
            }
            Self::SessionOver => "the session is over",
            Self::Moved => "the session is on another connection",
            Self::NotAllowed => {
                "the server does not let us; is it the user and the password that the nodes were \
                 made with? write zk://USER:PASSWORD@…"
            }
            Self::Unknown => "the server does not know the request; ZooKeeper 3.5 or newer is needed",
            Self::Unreachable(why) | Self::Broken(why) => why,
            Self::Garbled => "the server does not speak ZooKeeper's language; is it ZooKeeper, and a port without TLS?",
            Self::Other(code) => return write!(f, "the server says error {code}"),
        })
    }
}

impl std::error::Error for Refusal {}

/// What the server refused, if that is why it failed.
pub(super) fn refusal(error: &Error) -> Option<&Refusal> {
    std::error::Error::source(error)?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_is_judged_by_its_code() {
        let error = Refusal::of(-102).fault("lock a", "zookeeper a:1");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Denied, Effect::None)
        );
        assert_eq!(refusal(&error), Some(&Refusal::NotAllowed));
        let error = Refusal::Broken("connection reset".into()).fault("lock a", "zookeeper a:1");
        assert_eq!(
            error.to_string(),
            "lock a on zookeeper a:1: unavailable: connection reset"
        );
        assert_eq!(error.effect(), Effect::Unknown);
        let error = Refusal::Unreachable("refused".into()).fault("lock a", "zookeeper a:1");
        assert_eq!(error.effect(), Effect::None);
        assert_eq!(Refusal::of(-6).kind(), ErrorKind::Config);
    }
}
