//! What the server or the way to it refused. Every foreign error is judged
//! here, by its code.

use sqlx_core::error::Error as SqlxError;
use sqlx_postgres::PgDatabaseError;

use crate::error::{Effect, Error, ErrorKind};

/// What is to be done about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cure {
    /// Others were in the way; again, after a moment.
    Again,
    /// This connection is of no use any more.
    Reconnect,
    None,
}

/// The SQLSTATE, if the server said something.
pub(super) fn code(error: &SqlxError) -> Option<&str> {
    said(error).map(PgDatabaseError::code)
}

fn said(error: &SqlxError) -> Option<&PgDatabaseError> {
    match error {
        SqlxError::Database(said) => said.try_downcast_ref(),
        _ => None,
    }
}

pub(super) fn cure(error: &SqlxError) -> Cure {
    match code(error) {
        // A serialisation failure, a deadlock, a lock that took too long, a
        // statement that somebody cancelled, an isolation level that our
        // functions refuse.
        Some("40001" | "40P01" | "55P03" | "57014" | "LH002") => Cure::Again,
        // It shuts down, crashed, or cannot take anybody yet; it takes no writes
        // any more, so another one does; it was idle for too long.
        Some("57P01" | "57P02" | "57P03" | "57P05" | "25006" | "25P03") => Cure::Reconnect,
        // A pooler lost its server, or has none for us.
        Some(code) if code.starts_with("08") => Cure::Reconnect,
        Some(_) => Cure::None,
        None => Cure::Reconnect,
    }
}

/// Whether the server may have done it all the same.
fn effect(error: &SqlxError) -> Effect {
    match code(error) {
        // Said instead of the answer, maybe after the commit.
        Some("57P01" | "57P02" | "57P05") => Effect::Unknown,
        Some(code) if code.starts_with("08") => Effect::Unknown,
        Some(_) => Effect::None,
        None => Effect::Unknown,
    }
}

pub(super) fn fault(error: SqlxError, doing: String, store: &str) -> Error {
    let (kind, effect) = (kind(&error), effect(&error));
    Error::new(kind, doing, why(&error))
        .on(store)
        .effect_is(effect)
        .from_source(error)
}

fn kind(error: &SqlxError) -> ErrorKind {
    match error {
        SqlxError::Configuration(_) | SqlxError::Tls(_) => return ErrorKind::Config,
        _ => {}
    }
    match code(error) {
        // Wrong password, no such role, no right.
        Some("28000" | "28P01" | "42501") => ErrorKind::Denied,
        // No such database; a schema or table or function that is not there.
        Some("3D000" | "3F000" | "42P01" | "42883" | "42703") => ErrorKind::Config,
        // A name that the database's encoding cannot write.
        Some("22P05" | "22021") => ErrorKind::Usage,
        // Syntax and what else is not understood: another server.
        Some("42601" | "0A000") => ErrorKind::Config,
        _ => ErrorKind::Unavailable,
    }
}

fn why(error: &SqlxError) -> String {
    let text = match said(error) {
        Some(said) => said.message().to_owned(),
        None => match error {
            SqlxError::Io(error) => error.to_string(),
            SqlxError::Tls(error) => format!("TLS: {error}"),
            SqlxError::Configuration(error) => error.to_string(),
            SqlxError::PoolTimedOut => "no connection of the pool was free in time".into(),
            SqlxError::PoolClosed => "the pool is closed".into(),
            SqlxError::Protocol(text) => {
                format!("{text}; is it PostgreSQL?")
            }
            other => other.to_string(),
        },
    };
    let remedy = match code(error) {
        Some("3D000") => "create it or name another in the URL",
        Some("25006") => "name the server that takes writes",
        Some("53300") => "too many use it; lower `connections` or raise max_connections",
        Some("42501") => "grant the role what docs/stores/postgres.md says",
        Some("22P05" | "22021") => "the database's encoding is not UTF8; choose another name",
        _ => return text,
    };
    format!("{text}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_connection_leaves_the_effect_unknown() {
        let io = || SqlxError::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(cure(&io()), Cure::Reconnect);
        let error = fault(io(), "lock a".into(), "postgres db:1/x");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.effect(), Effect::Unknown);
    }
}
