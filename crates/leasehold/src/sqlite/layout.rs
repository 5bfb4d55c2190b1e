//! Opening the database: whether it is ours, making its tables, and starting
//! anew after a reboot.

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::Fault;
use super::file::StoreFile;
use super::live::{self, Liveness};
use crate::clock;
use crate::engine::LeaseId;
use crate::error::ErrorKind;

/// "LEAS" in the file's header.
const APPLICATION: i32 = 0x4c45_4153;
/// Raised by any change that an older version would misread.
pub(super) const VERSION: i32 = 1;
/// How far the counter moves at a reboot: more orders than a power loss can
/// have undone.
const REBOOT_STRIDE: i64 = 1 << 32;
/// Wall clocks beyond this, in the year 2112, are taken for broken.
const LATEST_START: i64 = 1 << 52;

/// Opens the database and leaves it ready for use in this boot.
pub(super) fn open(file: &StoreFile, boot: &str) -> Result<Connection, Fault> {
    let mut connection = connect(file)?;
    // One snapshot: somebody may be making the tables right now.
    let snapshot = connection.transaction()?;
    let found = state(&snapshot, boot)?;
    drop(snapshot);
    match found {
        State::Ready => {}
        State::Empty => {
            // Small pages make small log frames: a commit writes whole pages.
            connection.pragma_update(None, "page_size", 1024)?;
            use_log(&connection)?;
            initialise(&mut connection, file, boot)?;
        }
        State::OtherBoot => {
            use_log(&connection)?;
            initialise(&mut connection, file, boot)?;
        }
    }
    use_log(&connection)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    Ok(connection)
}

/// A plain connection with our settings.
pub(super) fn connect(file: &StoreFile) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(&file.path, flags)?;
    // Waiting is done outside, where it can be cancelled.
    connection.busy_timeout(Duration::ZERO)?;
    // The last to close would sync the whole log to disk, in a destructor.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    let limit = super::log::LOG_BYTES.cast_signed();
    connection.pragma_update(None, "journal_size_limit", limit)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

enum State {
    Ready,
    Empty,
    OtherBoot,
}

fn state(connection: &Connection, boot: &str) -> Result<State, Fault> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i32>(0));
    let application = number("pragma application_id")?;
    let version = number("pragma user_version")?;
    let tables = number("select count(*) from sqlite_schema")?;
    let refuse = |why: String| Err(Fault::new(ErrorKind::Config, why));
    match (application, version) {
        (0, 0) if tables == 0 => Ok(State::Empty),
        (APPLICATION, VERSION) => {
            let last = "select boot from meta";
            let last: String = connection.query_row(last, [], |row| row.get(0))?;
            Ok(if last == boot {
                State::Ready
            } else {
                State::OtherBoot
            })
        }
        (APPLICATION, newer @ VERSION..) => refuse(format!(
            "layout version {newer} is newer than {VERSION}: update leasehold"
        )),
        (APPLICATION, odd) => refuse(format!(
            "layout version {odd} is unknown: choose another path"
        )),
        _ => refuse("the database belongs to another application: choose another path".into()),
    }
}

fn use_log(connection: &Connection) -> Result<(), Fault> {
    let mode = connection.query_row("pragma journal_mode = wal", [], |row| {
        row.get::<_, String>(0)
    })?;
    if mode == "wal" {
        return Ok(());
    }
    let why = format!("the database cannot use a write-ahead log (journal mode {mode})");
    Err(Fault::new(ErrorKind::Config, why))
}

/// Makes the tables or empties them for this boot, whichever is still needed
/// once nobody else can be at it.
fn initialise(connection: &mut Connection, file: &StoreFile, boot: &str) -> Result<(), Fault> {
    // Only this commit has to be on the disk before anybody acts on it: a power
    // loss that could undo a later one leads back to here.
    connection.pragma_update(None, "synchronous", "full")?;
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    match state(&transaction, boot)? {
        State::Ready => return Ok(()),
        State::Empty => {
            refuse_survivors(file)?;
            transaction.execute_batch(include_str!("sql/schema.sql"))?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.execute("insert into meta (one, boot) values (1, ?1)", [boot])?;
            transaction.execute(include_str!("sql/lift.sql"), (0, start()))?;
        }
        State::OtherBoot => {
            refuse_other_kernel(file)?;
            transaction.execute_batch(include_str!("sql/new_boot.sql"))?;
            transaction.execute("update meta set boot = ?1", [boot])?;
            transaction.execute(include_str!("sql/lift.sql"), (REBOOT_STRIDE, start()))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The wall clock in microseconds, so that a store made anew goes on above the
/// tokens of the one before.
fn start() -> i64 {
    i64::try_from(clock::wall_time().as_micros())
        .ok()
        .filter(|&micros| micros < LATEST_START)
        .unwrap_or(0)
}

/// An empty file beside living sessions: somebody removed theirs. They will
/// find out; until then their locks must not be granted a second time.
fn refuse_survivors(file: &StoreFile) -> Result<(), Fault> {
    if living_sessions(file).is_empty() {
        return Ok(());
    }
    Err(Fault::new(
        ErrorKind::Unavailable,
        "sessions of a store that was deleted here are still alive; \
         they notice at their next renewal: try again then",
    ))
}

/// A lock taken in another boot and still held: two kernels share the file.
fn refuse_other_kernel(file: &StoreFile) -> Result<(), Fault> {
    if living_sessions(file).is_empty() {
        return Ok(());
    }
    Err(Fault::new(
        ErrorKind::Config,
        "another kernel uses this file too (a virtual machine or a sandbox), \
         and their clocks differ: use another path or a network store",
    ))
}

/// The sessions whose pipe is locked, whatever the tables say.
fn living_sessions(file: &StoreFile) -> Vec<LeaseId> {
    leases_with_files(file)
        .into_iter()
        .filter(|&lease| live::liveness(&file.sessions, lease) == Liveness::Alive)
        .collect()
}

/// The leases that have a file in the folder of sessions.
pub(super) fn leases_with_files(file: &StoreFile) -> Vec<LeaseId> {
    let Ok(entries) = std::fs::read_dir(&file.sessions) else {
        return Vec::new();
    };
    let lease = |name: &str| {
        let (digits, kind) = name.split_once('.')?;
        let is_ours = digits.len() == 32 && ["live", "inbox", "new"].contains(&kind);
        is_ours.then_some(())?;
        u128::from_str_radix(digits, 16).ok().map(LeaseId)
    };
    let mut leases: Vec<_> = entries
        .filter_map(|entry| lease(entry.ok()?.file_name().to_str()?))
        .collect();
    leases.sort_unstable();
    leases.dedup();
    leases
}

/// The running kernel's boot. It is refused to guess one.
pub(super) fn boot_id() -> Result<String, Fault> {
    if has_own_clock() {
        return Err(Fault::new(
            ErrorKind::Config,
            "this process has a boot clock of its own (a time namespace): \
             run it outside or use a network store",
        ));
    }
    match std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(boot) => Ok(boot.trim().to_owned()),
        Err(error) => Err(Fault::new(
            ErrorKind::Config,
            format!("the kernel's boot id cannot be read ({error}): mount /proc"),
        )),
    }
}

fn has_own_clock() -> bool {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    offsets
        .lines()
        .filter_map(|line| line.strip_prefix("boottime"))
        .any(|offset| offset.split_whitespace().any(|number| number != "0"))
}
