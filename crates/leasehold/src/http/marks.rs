//! The marks of all resources, on the disk.
//!
//! An SQLite file, written by one thread: marks that are raised at the same
//! time share one commit. Only one process may have it open, since requests
//! that another has let in could not be waited for.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use tokio::sync::oneshot;

use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::{Fence, Token};

/// Says that a file is ours: "lhgm".
const APPLICATION: i32 = 0x6c68_676d;
const VERSION: i32 = 1;
/// Marks that share one commit.
const MOST_AT_ONCE: usize = 256;

/// Raises marks.
#[derive(Debug)]
pub(super) struct Marks {
    sender: mpsc::Sender<Raise>,
}

#[derive(Debug)]
struct Raise {
    resource: String,
    fence: Fence,
    done: oneshot::Sender<Result<()>>,
}

impl Marks {
    /// Creates a file without marks, unless there is one.
    pub(super) fn create(path: &Path) -> Result<()> {
        let doing = || format!("create the state {}", path.display());
        let sound = |error| trouble(doing(), error);
        let refuse = |why: String, kind| Err(Error::new(kind, doing(), why));
        match std::fs::File::create_new(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return refuse("there is one already".into(), ErrorKind::Config);
            }
            Err(error) => return refuse(error.to_string(), ErrorKind::Denied),
        }
        let create = format!(
            "begin immediate;
             create table marks (resource text primary key, token blob not null, holder blob not null) without rowid;
             pragma application_id = {APPLICATION};
             pragma user_version = {VERSION};
             commit;"
        );
        open(path)
            .and_then(|it| it.execute_batch(&create))
            .map_err(sound)
    }

    /// Opens the file and says what marks it has.
    pub(super) fn open(path: &Path) -> Result<(Self, HashMap<String, Fence>)> {
        let doing = || format!("open the state {}", path.display());
        let connection = open(path).map_err(|error| trouble(doing(), error))?;
        check(&connection, &doing)?;
        let marks = read(&connection).map_err(|error| trouble(doing(), error))?;
        let (sender, receiver) = mpsc::channel();
        let name = "leasehold-marks".to_owned();
        let thread = thread::Builder::new().name(name);
        let spawned = thread.spawn(move || write_all(connection, &receiver));
        spawned.map_err(|error| Error::new(ErrorKind::Unavailable, doing(), error.to_string()))?;
        Ok((Self { sender }, marks))
    }

    /// Returns when the mark is on the disk.
    pub(super) async fn raise(&self, resource: &str, fence: Fence) -> Result<()> {
        let (done, raised) = oneshot::channel();
        let raise = Raise {
            resource: resource.to_owned(),
            fence,
            done,
        };
        let gone = || {
            Error::new(
                ErrorKind::Unavailable,
                "raise a mark",
                "the state is closed",
            )
        };
        self.sender.send(raise).map_err(|_| gone())?;
        raised.await.map_err(|_| gone())?
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Nobody else comes in until this process ends, however it ends.
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch("begin exclusive; commit")?;
    Ok(connection)
}

fn check(connection: &Connection, doing: &dyn Fn() -> String) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::Config, doing(), why));
    let sound = |error| trouble(doing(), error);
    let number = |pragma| -> Result<i32> {
        let value = connection.pragma_query_value(None, pragma, |row| row.get(0));
        value.map_err(sound)
    };
    let tables = "select count(*) from sqlite_schema";
    let tables: i64 = connection
        .query_row(tables, [], |row| row.get(0))
        .map_err(sound)?;
    if tables == 0 {
        // Not taken for a new one: its marks may have been lost.
        return refuse(damaged("it is empty"));
    }
    if number("application_id")? != APPLICATION {
        return refuse("it is an SQLite file of somebody else".into());
    }
    match number("user_version")? {
        VERSION => {}
        newer => return refuse(format!("a newer leasehold wrote it: version {newer}")),
    }
    let verdict = connection.pragma_query_value(None, "quick_check", |row| row.get(0));
    let verdict: String = verdict.map_err(sound)?;
    if verdict != "ok" {
        return refuse(damaged(&verdict));
    }
    Ok(())
}

/// How to go on. A backup lacks the marks that were raised since.
fn damaged(what: &str) -> String {
    format!(
        "it is damaged ({what}); only when no holder of before can be left, restore it from a \
         backup, or delete it and create it anew; then nobody passes until what was under way is over"
    )
}

fn read(connection: &Connection) -> rusqlite::Result<HashMap<String, Fence>> {
    let mut marks = connection.prepare("select resource, token, holder from marks")?;
    let rows = marks.query_map([], |row| {
        let token = Token::new(u64::from_be_bytes(row.get(1)?));
        let holder = u64::from_be_bytes(row.get(2)?);
        Ok((row.get(0)?, Fence { token, holder }))
    })?;
    rows.collect()
}

fn write_all(mut connection: Connection, receiver: &mpsc::Receiver<Raise>) {
    while let Ok(first) = receiver.recv() {
        let more = receiver.try_iter().take(MOST_AT_ONCE - 1);
        let raises: Vec<Raise> = std::iter::once(first).chain(more).collect();
        let written = write(&mut connection, &raises);
        for raise in raises {
            let failed = |error: &rusqlite::Error| {
                let why = error.to_string();
                let error = Error::new(ErrorKind::Unavailable, "raise a mark", why);
                error.effect_is(Effect::Unknown)
            };
            // Whoever asked may have gone.
            _ = raise.done.send(written.as_ref().copied().map_err(failed));
        }
    }
}

fn write(connection: &mut Connection, raises: &[Raise]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        // Big-endian bytes compare as the numbers do, also above 2^63.
        let mut raise = transaction.prepare_cached(
            "insert into marks values (?1, ?2, ?3) on conflict (resource) do update
             set token = excluded.token, holder = excluded.holder where excluded.token > token",
        )?;
        for Raise {
            resource, fence, ..
        } in raises
        {
            let (token, holder) = (fence.token.get().to_be_bytes(), fence.holder.to_be_bytes());
            raise.execute(params![resource, token, holder])?;
        }
    }
    transaction.commit()
}

fn trouble(doing: String, error: rusqlite::Error) -> Error {
    let why = error.to_string();
    let (kind, why) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Unavailable, "another process uses it".to_owned())
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            (ErrorKind::Config, damaged(&why))
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            (ErrorKind::Denied, why)
        }
        // A table of ours whose columns are not ours.
        None => (ErrorKind::Config, damaged(&why)),
        _ => (ErrorKind::Unavailable, why),
    };
    Error::new(kind, doing, why).from_source(error)
}
