//! What the server or the way to it refused. Every foreign error is judged here,
//! by its number.

use sqlx_core::error::Error as SqlxError;
use sqlx_mysql::MySqlDatabaseError;

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

/// The number of the error, if the server said something.
pub(super) fn code(error: &SqlxError) -> Option<u16> {
    said(error).map(MySqlDatabaseError::number)
}

fn said(error: &SqlxError) -> Option<&MySqlDatabaseError> {
    match error {
        SqlxError::Database(said) => said.try_downcast_ref(),
        _ => None,
    }
}

/// Whether a row was locked by somebody who did not let go of it in time.
pub(super) fn is_locked(error: &SqlxError) -> bool {
    matches!(code(error), Some(1205 | 3572))
}

/// Whether it was refused because no statements are kept, or no more of them; because
/// they are kept by another one than we talk to now; or because what they speak of
/// changes all the time.
pub(super) fn is_unprepared(error: &SqlxError) -> bool {
    matches!(code(error), Some(1243 | 1295 | 1461 | 1615))
}

/// Whether it was refused because the server takes no writes.
pub(super) fn is_read_only(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref());
    matches!(source.and_then(code), Some(1290 | 1792 | 1836))
}

pub(super) fn cure(error: &SqlxError) -> Cure {
    match code(error) {
        // A deadlock, a lock that took too long, one that was not to be waited
        // for, a row that changed since it was read, a statement that somebody
        // cancelled, or that took longer than a user's connection may; and one that is to
        // be said as a text.
        Some(1213 | 1205 | 3572 | 1020 | 1317 | 1969 | 3024 | 1243 | 1295 | 1461 | 1615) => {
            Cure::Again
        }
        Some(code) if is_plain_refusal(code) => Cure::None,
        None if distrust(error).is_some() => Cure::None,
        // It shuts down, ended the connection, takes no writes any more, so that
        // another one does; or the connection came to us inside a transaction.
        Some(_) | None => Cure::Reconnect,
    }
}

/// Refused before anything was done, and it would be refused again.
fn is_plain_refusal(code: u16) -> bool {
    matches!(
        code,
        // No rights, a wrong password, a host that may not connect.
        1044 | 1045 | 1130 | 1142 | 1143 | 1227 | 1370 | 1396 | 1698 | 1820 | 1862
        // No such database, table, column; not understood; a setting.
        | 1049 | 1054 | 1064 | 1109 | 1146 | 1193 | 1286 | 1305 | 1665
        // Too long, out of range, null; nobody to wake, or not ours to wake.
        | 1048 | 1264 | 1406 | 1094 | 1095
    )
}

/// Whether the server may have done it all the same.
fn effect(error: &SqlxError) -> Effect {
    match code(error) {
        // What these were said to was rolled back, or never begun: read only, a
        // transaction that was open before, too many connections, or statements.
        Some(
            1213 | 1205 | 3572 | 1020 | 1290 | 1792 | 1836 | 1568 | 1040 | 1203 | 1226 | 1243
            | 1295 | 1461 | 1615,
        ) => Effect::None,
        Some(code) if is_plain_refusal(code) => Effect::None,
        None if distrust(error).is_some() => Effect::None,
        Some(_) | None => Effect::Unknown,
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
    if let Some(kind) = tls::kind(error) {
        return kind;
    }
    match code(error) {
        Some(1044 | 1045 | 1130 | 1142 | 1143 | 1227 | 1370 | 1698 | 1820 | 1862) => {
            ErrorKind::Denied
        }
        Some(1049 | 1054 | 1064 | 1109 | 1146 | 1193 | 1286 | 1305 | 1665) => ErrorKind::Config,
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
            SqlxError::Protocol(text) => format!("{text}; is it MySQL or MariaDB?"),
            other => other.to_string(),
        },
    };
    match distrust(error) {
        Some(Distrust::OfServer) => {
            return format!("{text}: name the authority that signed it with `ssl-ca`");
        }
        Some(Distrust::OfUs) => {
            return format!("{text}: show a certificate that it trusts with `ssl-cert`");
        }
        None => {}
    }
    let remedy = match code(error) {
        Some(1049) => "create it or name another in the URL",
        Some(1290 | 1792 | 1836) => "name the server that takes writes",
        Some(1040 | 1203 | 1226) => "too many use it; lower `connections` or raise its limit",
        Some(1142 | 1044) => "grant the user what docs/stores/mysql.md says",
        Some(1665) => "set binlog_format to ROW or MIXED",
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
        let error = fault(io(), "lock a".into(), "mysql db:1/x");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.effect(), Effect::Unknown);
    }
}
