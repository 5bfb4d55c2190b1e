//! Whether the store is fit for locks, for people who look after it.

use rusqlite::Connection;

use super::database::Store;
use super::fault::Fault;
use super::file::file_system;
use super::layout;
use crate::engine::{Finding, Severity};

/// Less free space than this is a warning; a full disk stops all renewals.
const LITTLE_SPACE: u64 = 64 << 20;
/// A log this long is not being brought into the database.
const LONG_LOG: u64 = 64 << 20;

/// Looks at the file system, the file, the database and the kernel.
pub(super) fn examine(store: &Store, connection: &Connection) -> Result<Vec<Finding>, Fault> {
    Ok(vec![
        where_it_is(store)?,
        free_space(store)?,
        permissions(store)?,
        settings(connection)?,
        integrity(connection)?,
        log(store),
        boot(store, connection)?,
        contents(connection)?,
        fine(format!("sqlite {}", rusqlite::version())),
    ])
}

fn fine(what: String) -> Finding {
    finding(Severity::Fine, what, "")
}

fn finding(severity: Severity, what: String, remedy: &str) -> Finding {
    Finding {
        severity,
        what,
        remedy: remedy.to_owned(),
    }
}

fn where_it_is(store: &Store) -> Result<Finding, Fault> {
    let path = &store.file.path;
    let (name, is_local) =
        file_system(path).map_err(|errno| Fault::system(path.display(), errno))?;
    let what = format!("{} is on {name}", path.display());
    Ok(if is_local {
        fine(what)
    } else {
        let remedy = "move the store to a local file system, or use a network store";
        finding(Severity::Unfit, what, remedy)
    })
}

fn free_space(store: &Store) -> Result<Finding, Fault> {
    let path = &store.file.path;
    let space = rustix::fs::statvfs(path).map_err(|errno| Fault::system(path.display(), errno))?;
    let bytes = space.f_bavail.saturating_mul(space.f_frsize);
    let what = format!("{} MiB of disk are free", bytes >> 20);
    Ok(if bytes >= LITTLE_SPACE {
        fine(what)
    } else {
        let remedy = "free some space: on a full disk no lease can be renewed";
        finding(Severity::Warning, what, remedy)
    })
}

fn permissions(store: &Store) -> Result<Finding, Fault> {
    let sessions = &store.file.sessions;
    let folder =
        rustix::fs::stat(sessions).map_err(|errno| Fault::system(sessions.display(), errno))?;
    let (file, folder) = (store.file.stat()?.st_mode & 0o7777, folder.st_mode & 0o7777);
    let what = format!("the file has mode {file:04o}, the folder of sessions {folder:04o}");
    Ok(if (file | folder) & 0o002 == 0 {
        fine(what)
    } else {
        let remedy = "any user can break any lock: remove write access for others (chmod o-w)";
        finding(Severity::Unfit, what, remedy)
    })
}

fn settings(connection: &Connection) -> Result<Finding, Fault> {
    let journal: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
    let synchronous: i64 = connection.query_row("pragma synchronous", [], |row| row.get(0))?;
    let what = format!("journal mode {journal}, synchronous {synchronous}");
    Ok(if journal == "wal" && synchronous >= 1 {
        fine(what)
    } else {
        let remedy = "somebody changed the journal mode: close all users and connect again";
        finding(Severity::Warning, what, remedy)
    })
}

fn integrity(connection: &Connection) -> Result<Finding, Fault> {
    let check: String = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    Ok(if check == "ok" {
        fine("the database is whole".to_owned())
    } else {
        let remedy = "stop its users and remove the file; a new one is made";
        finding(
            Severity::Unfit,
            format!("the database is damaged: {check}"),
            remedy,
        )
    })
}

fn log(store: &Store) -> Finding {
    let bytes = store.log_bytes();
    let what = format!("the write-ahead log has {} KiB", bytes >> 10);
    if bytes <= LONG_LOG {
        return fine(what);
    }
    let remedy = "some program keeps a read transaction open: find it and end it";
    finding(Severity::Warning, what, remedy)
}

fn boot(store: &Store, connection: &Connection) -> Result<Finding, Fault> {
    let last: String = connection.query_row("select boot from meta", [], |row| row.get(0))?;
    let what = format!("boot {last}");
    Ok(if last == store.boot {
        fine(what)
    } else {
        let remedy = "another kernel uses this file too: give each its own, or use a network store";
        finding(Severity::Unfit, what, remedy)
    })
}

fn contents(connection: &Connection) -> Result<Finding, Fault> {
    let sql =
        "select (select count(*) from session), (select count(*) from claim where name <> '')";
    let (sessions, claims): (u64, u64) = connection.query_row(sql, [], |row| {
        Ok((
            row.get::<_, i64>(0)?.unsigned_abs(),
            row.get::<_, i64>(1)?.unsigned_abs(),
        ))
    })?;
    let version = layout::VERSION;
    Ok(fine(format!(
        "layout version {version}, {sessions} sessions, {claims} claims"
    )))
}
