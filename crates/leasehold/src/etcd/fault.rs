//! What the server or the way to it refused. Every foreign error is judged
//! here, by its code and, where one code means many things, by its text.

use tonic::{Code, ConnectError, Status};

use crate::error::{Effect, Error, ErrorKind};

/// What is being done when a server is met for the first time.
pub(super) const CONNECT: &str = "connect";

/// What is to be done about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cure {
    /// Another member may answer.
    AskAnother,
    /// A new token may help.
    SayWhoWeAre,
    None,
}

/// The server does not know the lease: it is over.
pub(super) fn is_lease_gone(status: &Status) -> bool {
    status.message().contains("requested lease not found")
}

pub(super) fn cure(status: &Status) -> Cure {
    let text = status.message();
    match status.code() {
        Code::Unauthenticated => Cure::SayWhoWeAre,
        _ if text.contains("invalid auth token") || text.contains("auth store is old") => {
            Cure::SayWhoWeAre
        }
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => {
            Cure::AskAnother
        }
        // A learner takes no part; others do.
        Code::FailedPrecondition if text.contains("learner") => Cure::AskAnother,
        _ => Cure::None,
    }
}

/// Whether the server may have done it all the same.
pub(super) fn effect(status: &Status) -> Effect {
    let text = status.message();
    let is_refused = is_never_sent(status)
        || text.contains("no leader")
        || text.contains("learner")
        || text.contains("too many requests")
        || text.contains("space exceeded");
    match status.code() {
        _ if is_refused => Effect::None,
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Effect::Unknown,
        Code::Unknown | Code::Internal | Code::DataLoss | Code::Aborted => Effect::Unknown,
        _ => Effect::None,
    }
}

pub(super) fn fault(status: Status, doing: String, store: &str) -> Error {
    let (effect, mut kind) = (effect(&status), kind(&status));
    // A first word that is not understood is the sign of another language.
    let is_greeting = doing == CONNECT;
    let is_cut_short = is_greeting && is_handshake_cut_short(&status);
    if is_cut_short {
        kind = ErrorKind::Config;
    }
    let is_understood = is_never_sent(&status) && !is_cut_short;
    let why = match why(&status) {
        why if is_greeting && is_transport(&status) && !is_understood => {
            format!(
                "{why}; is it etcd, is TLS on both sides or on neither, and has each side the \
                 certificate that the other wants?"
            )
        }
        why => why,
    };
    Error::new(kind, doing, why)
        .on(store)
        .effect_is(effect)
        .from_source(status)
}

fn kind(status: &Status) -> ErrorKind {
    let text = status.message();
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => ErrorKind::Denied,
        Code::InvalidArgument if text.contains("user") || text.contains("password") => {
            ErrorKind::Denied
        }
        Code::FailedPrecondition if text.contains("user") || text.contains("auth") => {
            ErrorKind::Denied
        }
        Code::Unimplemented => ErrorKind::Config,
        _ if is_other_protocol(status) => ErrorKind::Config,
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::Config,
        _ => ErrorKind::Unavailable,
    }
}

fn why(status: &Status) -> String {
    let text = status.message();
    let text = text.strip_prefix("etcdserver: ").unwrap_or(text);
    match status.code() {
        Code::Unimplemented => "the server does not speak etcd's API v3; etcd 3.4 or newer \
                                is needed"
            .into(),
        _ if text == "user name is empty" => {
            "the server wants a user; write etcd://USER:PASSWORD@…".into()
        }
        _ if is_transport(status) => deepest(status),
        _ if text.contains("request timed out") || text.contains("no leader") => {
            format!("{text}: are a majority of the members up?")
        }
        _ if text.contains("learner") => format!("{text}: name the voting members too"),
        _ if text.contains("space exceeded") => {
            format!("{text}: compact and defragment, then disarm the alarm")
        }
        _ => text.to_owned(),
    }
}

/// No connection: nothing reached anybody.
fn is_never_sent(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

/// The other side answers, in another language.
fn is_other_protocol(status: &Status) -> bool {
    let all: Vec<_> = causes(status).map(ToString::to_string).collect();
    let signs = [
        "InvalidContentType",
        "corrupt message",
        "frame with invalid size",
        "PROTOCOL_ERROR",
        "ertificate",
        "HandshakeFailure",
    ];
    let text = status.message();
    let has = |sign: &&str| text.contains(*sign) || all.iter().any(|cause| cause.contains(*sign));
    signs.iter().any(has)
}

/// The other side hung up when it saw TLS. A server without TLS does so, and
/// whether that is heard as an end or as a reset is left to chance. A connection
/// that was never made is not reset: that comes from the handshake.
fn is_handshake_cut_short(status: &Status) -> bool {
    let is_reset = |cause: &(dyn std::error::Error + 'static)| {
        let error = cause.downcast_ref::<std::io::Error>();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    };
    causes(status).any(|cause| cause.to_string().contains("handshake eof"))
        || is_never_sent(status) && causes(status).any(is_reset)
}

/// It is about the way to the server, and not what the server says.
fn is_transport(status: &Status) -> bool {
    causes(status).next().is_some()
}

/// The words of the first cause, which say most.
fn deepest(status: &Status) -> String {
    let last = causes(status).last().map(ToString::to_string);
    last.unwrap_or_else(|| status.message().to_owned())
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first = std::error::Error::source(status);
    std::iter::successors(first, |cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: Code, text: &str) -> Error {
        let status = Status::new(code, format!("etcdserver: {text}"));
        fault(status, "lock a".into(), "etcd a:1")
    }

    #[test]
    fn what_the_server_says_is_judged_by_code_and_text() {
        let error = said(Code::PermissionDenied, "permission denied");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Denied, Effect::None)
        );
        assert_eq!(
            error.to_string(),
            "lock a on etcd a:1: denied: permission denied"
        );
        let error = said(Code::Unavailable, "leader changed");
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, Effect::Unknown)
        );
        let error = said(Code::Unavailable, "no leader");
        assert_eq!(error.effect(), Effect::None);
        let error = said(Code::ResourceExhausted, "mvcc: database space exceeded");
        assert!(error.why().contains("disarm"), "{error}");
        let error = said(Code::InvalidArgument, "user name is empty");
        assert_eq!(error.kind(), ErrorKind::Denied);
        let error = said(Code::Unimplemented, "unknown service");
        assert_eq!(error.kind(), ErrorKind::Config);
    }

    #[test]
    fn what_helps_is_known() {
        let cure = |code, text| cure(&Status::new(code, text));
        assert_eq!(cure(Code::Unavailable, "x"), Cure::AskAnother);
        assert_eq!(cure(Code::Unauthenticated, "x"), Cure::SayWhoWeAre);
        assert_eq!(cure(Code::PermissionDenied, "x"), Cure::None);
        let old = "etcdserver: revision of auth store is old";
        assert_eq!(cure(Code::InvalidArgument, old), Cure::SayWhoWeAre);
        let learner = "etcdserver: rpc not supported for learner";
        assert_eq!(cure(Code::FailedPrecondition, learner), Cure::AskAnother);
    }
}
