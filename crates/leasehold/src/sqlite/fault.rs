//! What went wrong with the file, the folder or SQLite, before it is known
//! what was being done. Every foreign error is judged here, by its code.

use std::fmt::Display;

use rusqlite::ErrorCode;
use rustix::io::Errno;

use crate::error::{Effect, Error, ErrorKind};

/// Why a piece of work in the store ended without a result.
#[derive(Debug)]
pub(super) enum Fault {
    /// Somebody else is writing; trying again soon helps.
    Busy,
    /// Anything else.
    Failed(Failure),
}

#[derive(Debug)]
pub(super) struct Failure {
    kind: ErrorKind,
    why: String,
    effect: Effect,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Fault {
    pub(super) fn new(kind: ErrorKind, why: impl Into<String>) -> Self {
        Self::Failed(Failure {
            kind,
            why: why.into(),
            effect: Effect::None,
            source: None,
        })
    }

    /// The store's file or folder refused a system call.
    pub(super) fn system(what: impl Display, errno: Errno) -> Self {
        let (kind, why) = match errno {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => (
                ErrorKind::Denied,
                format!("{what}: {errno}; give this user write access to the file and its folder"),
            ),
            Errno::NOSPC | Errno::DQUOT => (
                ErrorKind::Unavailable,
                format!("{what}: disk is full; free some space"),
            ),
            // Kernel file systems such as /proc let nobody make files.
            Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NAMETOOLONG | Errno::LOOP => (
                ErrorKind::Config,
                format!("{what}: {errno}; choose another path"),
            ),
            Errno::MFILE | Errno::NFILE => (
                ErrorKind::Unavailable,
                format!("{what}: {errno}; raise the limit of open files"),
            ),
            _ => (ErrorKind::Unavailable, format!("{what}: {errno}")),
        };
        Self::Failed(Failure {
            kind,
            why,
            effect: Effect::None,
            source: Some(errno.into()),
        })
    }

    /// The same, of something that may have happened all the same.
    pub(super) fn in_doubt(mut self) -> Self {
        if let Self::Failed(failure) = &mut self {
            failure.effect = Effect::Unknown;
        }
        self
    }

    pub(super) fn into_error(self, doing: impl Into<String>, store: impl Into<String>) -> Error {
        match self {
            Self::Busy => Error::new(
                ErrorKind::Unavailable,
                doing,
                "the database is busy: another process keeps it locked",
            )
            .on(store),
            Self::Failed(failure) => {
                let error = Error::new(failure.kind, doing, failure.why)
                    .on(store)
                    .effect_is(failure.effect);
                match failure.source {
                    Some(source) => error.from_source(source),
                    None => error,
                }
            }
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        let (kind, why) = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => return Self::Busy,
            Some(ErrorCode::DiskFull) => (
                ErrorKind::Unavailable,
                "disk is full; free some space".to_owned(),
            ),
            Some(ErrorCode::SystemIoFailure) => (
                ErrorKind::Unavailable,
                format!("the disk failed: {error}; look at the kernel's log"),
            ),
            Some(ErrorCode::OutOfMemory) => (ErrorKind::Unavailable, "out of memory".to_owned()),
            Some(ErrorCode::NotADatabase) => (
                ErrorKind::Config,
                "the file is not a SQLite database; choose another path".to_owned(),
            ),
            Some(ErrorCode::DatabaseCorrupt) => (
                ErrorKind::Config,
                format!("the database is damaged: {error}; stop its users and remove it"),
            ),
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::CannotOpen
                | ErrorCode::AuthorizationForStatementDenied,
            ) => (
                ErrorKind::Denied,
                format!("{error}; give this user write access to the file and its folder"),
            ),
            _ => (ErrorKind::Unavailable, error.to_string()),
        };
        Self::Failed(Failure {
            kind,
            why,
            effect: Effect::None,
            source: Some(error.into()),
        })
    }
}
