//! What the server or the way to it refused. Every foreign error is judged
//! here, by its code.

use sqlx_core::error::Error as SqlxError;
use sqlx_postgres::{PgDatabaseError, PgSeverity};

use crate::error::{Effect, Error, ErrorKind};
use crate::tls::{self, Distrust, distrust};

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
    judge(error).0
}

fn judge(error: &SqlxError) -> (Cure, Effect) {
    match said(error) {
        Some(said) => judge_code(said.code(), said.severity()),
        None if distrust(error).is_some() => (Cure::None, Effect::None),
        None => (Cure::Reconnect, Effect::Unknown),
    }
}

/// What is to be done, and whether the server may have done it all the same.
fn judge_code(code: &str, severity: PgSeverity) -> (Cure, Effect) {
    match code {
        // Said before any request is taken: no such role or database, wrong
        // password, too many; not yet.
        "3D000" | "53300" => return (Cure::None, Effect::None),
        _ if code.starts_with("28") => return (Cure::None, Effect::None),
        "57P03" => return (Cure::Reconnect, Effect::None),
        _ => {}
    }
    // The connection ends with it. Said instead of the answer, maybe after the
    // commit.
    if matches!(severity, PgSeverity::Fatal | PgSeverity::Panic) {
        return (Cure::Reconnect, Effect::Unknown);
    }
    match code {
        // A serialisation failure, a deadlock, a lock that took too long, a
        // statement that somebody cancelled, an isolation level that our
        // functions refuse.
        "40001" | "40P01" | "55P03" | "57014" | "LH002" => (Cure::Again, Effect::None),
        // It shuts down, or crashed; it was idle for too long.
        "57P01" | "57P02" | "57P05" => (Cure::Reconnect, Effect::Unknown),
        // It takes no writes any more, so another one does; somebody left a
        // transaction open; somebody gave us another connection.
        "25006" | "25P03" | "25P02" | "25001" | "LH003" | "LH004" => {
            (Cure::Reconnect, Effect::None)
        }
        // A pooler lost its server, or has none for us; the system or the server
        // itself is broken.
        _ if ["08", "58", "XX"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            (Cure::Reconnect, Effect::Unknown)
        }
        _ => (Cure::None, Effect::None),
    }
}

pub(super) fn fault(error: SqlxError, doing: String, store: &str) -> Error {
    let (kind, effect) = (kind(&error), judge(&error).1);
    Error::new(kind, doing, why(&error))
        .on(store)
        .effect_is(effect)
        .from_source(error)
}

fn kind(error: &SqlxError) -> ErrorKind {
    if let Some(kind) = tls::kind(error) {
        return kind;
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
    match distrust(error) {
        Some(Distrust::OfServer) => {
            return format!("{text}: name the authority that signed it with `sslrootcert`");
        }
        Some(Distrust::OfUs) => {
            return format!("{text}: show a certificate that it trusts with `sslcert`");
        }
        None => {}
    }
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

    #[test]
    fn a_server_that_breaks_off_may_have_done_it() {
        let unsure = (Cure::Reconnect, Effect::Unknown);
        for severity in [PgSeverity::Fatal, PgSeverity::Panic] {
            for code in ["57P01", "40001", "53200", "53100", "XX000"] {
                assert_eq!(judge_code(code, severity), unsure, "{code}");
            }
        }
        for code in ["58030", "58P01", "XX001", "08006"] {
            assert_eq!(judge_code(code, PgSeverity::Error), unsure, "{code}");
        }
        let refused = (Cure::None, Effect::None);
        assert_eq!(judge_code("28P01", PgSeverity::Fatal), refused);
        assert_eq!(judge_code("42501", PgSeverity::Error), refused);
        let again = (Cure::Again, Effect::None);
        assert_eq!(judge_code("40P01", PgSeverity::Error), again);
    }
}
