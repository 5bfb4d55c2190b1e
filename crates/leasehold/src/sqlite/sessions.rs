//! What happens to a whole session, each as one piece of work in the database.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};

use super::database::Store;
use super::fault::Fault;
use super::inbox::{OpenLease, lock};
use super::layout;
use super::live;
use super::queue::{self, Change, Look};
use crate::clock::{self, Moment};
use crate::engine::{GoneClaim, Lease, LeaseId, Owner, Renewal, TicketId};
use crate::guard::Lost;
use crate::rule;

/// How many dead sessions one newcomer clears away.
const SWEPT_AT_ONCE: usize = 64;

/// Makes the files of a new session. They come before its row, so that a row
/// without a locked pipe always means a dead process.
pub(super) fn make_files(store: &Store, lease: Lease) -> Result<OpenLease, Fault> {
    // Somebody may have cleaned up since the store was opened.
    store.file.make_sessions_folder()?;
    let live = live::go_live(&store.file, lease.id)?;
    OpenLease::new(&store.file, lease, live).inspect_err(|_| queue::remove_files(store, lease.id))
}

/// Enters a session whose files are there.
pub(super) fn enter(
    store: &Store,
    connection: &Connection,
    lease: Lease,
    owner: &Owner,
) -> Result<(), Fault> {
    let write = store.begin(connection)?;
    let now = clock::boot_time();
    connection
        .prepare_cached(include_str!("sql/open.sql"))?
        .execute((
            lease.id.0.to_be_bytes(),
            (now + lease.ttl).nanos().cast_signed(),
            owner.host(),
            owner.pid(),
            owner.label(),
            now.nanos().cast_signed(),
        ))?;
    store.commit(write)
}

/// Keeps the lease for another ttl and fetches what was broken meanwhile.
pub(super) fn renew(
    store: &Store,
    connection: &Connection,
    lease: Lease,
) -> Result<Renewal, Fault> {
    let id = lease.id.0.to_be_bytes();
    let write = store.begin(connection)?;
    let now = clock::boot_time();
    let until = (now + lease.ttl).nanos().cast_signed();
    let renewed = connection
        .prepare_cached(include_str!("sql/renew.sql"))?
        .execute((id, until, now.nanos().cast_signed()))?;
    if renewed == 0 {
        return Ok(Renewal::LeaseGone);
    }
    let gone = {
        let mut tell = connection.prepare_cached(include_str!("sql/tell.sql"))?;
        let rows = tell.query_map([id], broken)?;
        rows.collect::<Result<Vec<_>, _>>()?
    };
    if !gone.is_empty() {
        let mut told = connection.prepare_cached(include_str!("sql/told.sql"))?;
        told.execute([id])?;
    }
    store.commit(write)?;
    // The store has now told us and will not again. Whoever asked may have given
    // up, so what was told is kept until an answer is taken.
    match store.ours.lease(lease.id) {
        Some(open) => {
            lock(&open.gone).extend(gone);
            Ok(Renewal::Renewed { gone: Vec::new() })
        }
        None => Ok(Renewal::Renewed { gone }),
    }
}

fn broken(row: &rusqlite::Row<'_>) -> rusqlite::Result<GoneClaim> {
    let (by, reason): (String, String) = (row.get(1)?, row.get(2)?);
    Ok(GoneClaim {
        id: TicketId(u128::from_be_bytes(row.get(0)?)),
        lost: Lost::Evicted,
        note: Some(if reason.is_empty() {
            format!("by {by}")
        } else {
            format!("by {by}: {reason}")
        }),
    })
}

/// Ends the session and removes its claims and files.
pub(super) fn close(store: &Store, connection: &Connection, lease: LeaseId) -> Result<(), Fault> {
    let write = store.begin(connection)?;
    let mut change = Change::new(store, &write, clock::boot_time());
    leave(&mut change, lease)?;
    let afterwards = change.afterwards;
    store.commit(write)?;
    afterwards.carry_out(store);
    // Somebody who took the session for dead has removed its row before us.
    queue::remove_files(store, lease);
    Ok(())
}

fn leave(change: &mut Change<'_, '_>, lease: LeaseId) -> Result<(), Fault> {
    let mut left = BTreeMap::<String, Vec<rule::Claim>>::new();
    {
        let connection = change.write.connection;
        let mut delete = connection.prepare_cached(include_str!("sql/leave.sql"))?;
        let mut rows = delete.query([lease.0.to_be_bytes()])?;
        while let Some(row) = rows.next()? {
            left.entry(row.get(0)?).or_default().push(rule::Claim {
                order: row.get::<_, i64>(1)?.cast_unsigned(),
                weight: row.get(2)?,
            });
        }
    }
    change.end_session(lease)?;
    for (name, claims) in &left {
        change.walk(name, claims, None, Look::AtNew)?;
    }
    Ok(())
}

/// Removes what dead sessions left behind, a few at a time: the others wait
/// meanwhile, and a dead claim that is in anybody's way is removed anyway. Reads
/// first, because mostly there is nothing to do.
pub(super) fn sweep(store: &Store, connection: &Connection) -> Result<(), Fault> {
    let found = remains(store, connection, clock::boot_time())?;
    if found.is_empty() {
        return Ok(());
    }
    let write = store.begin(connection)?;
    let mut change = Change::new(store, &write, clock::boot_time());
    for &lease in found.iter().take(SWEPT_AT_ONCE) {
        let mut select = connection.prepare_cached(include_str!("sql/session.sql"))?;
        let expires = select
            .query_row([lease.0.to_be_bytes()], |row| row.get::<_, i64>(0))
            .optional()?
            .map(|nanos| Moment::from_nanos(nanos.cast_unsigned()));
        let is_over =
            expires.is_none_or(|expires| expires <= change.now || store.is_process_gone(lease));
        if is_over {
            leave(&mut change, lease)?;
        }
        // One that is just starting has files and no row yet.
        if expires.is_none() && live::is_left_over(&store.file.sessions, lease) {
            change.afterwards.end(lease);
        }
    }
    let afterwards = change.afterwards;
    store.commit(write)?;
    afterwards.carry_out(store);
    Ok(())
}

/// The sessions that are over but still have a row, claims or files.
fn remains(store: &Store, connection: &Connection, now: Moment) -> Result<Vec<LeaseId>, Fault> {
    let lease = |row: &rusqlite::Row<'_>| Ok(LeaseId(u128::from_be_bytes(row.get(0)?)));
    let sessions: BTreeMap<LeaseId, Moment> = connection
        .prepare_cached(include_str!("sql/sessions.sql"))?
        .query_map([], |row| {
            let expires: i64 = row.get(1)?;
            Ok((lease(row)?, Moment::from_nanos(expires.cast_unsigned())))
        })?
        .collect::<Result<_, _>>()?;
    let mut remains: Vec<_> = connection
        .prepare_cached(include_str!("sql/orphans.sql"))?
        .query_map([], lease)?
        .collect::<Result<_, _>>()?;
    let is_over =
        |session: LeaseId, expires: Moment| expires <= now || store.is_process_gone(session);
    remains.extend(
        sessions
            .iter()
            .filter(|&(&session, &expires)| is_over(session, expires))
            .map(|(session, _)| *session),
    );
    let folder = &store.file.sessions;
    let wall = clock::file_time();
    for lease in layout::leases_with_files(&store.file) {
        if sessions.contains_key(&lease) {
            continue;
        }
        live::remove_unborn(folder, lease, wall);
        if live::is_left_over(folder, lease) {
            remains.push(lease);
        }
    }
    remains.sort_unstable();
    remains.dedup();
    Ok(remains)
}
