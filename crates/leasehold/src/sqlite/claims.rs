//! What happens to one claim, each as one piece of work in the database.

use rusqlite::{Connection, OptionalExtension};

use super::database::Store;
use super::fault::Fault;
use super::inbox::Message;
use super::queue::{self, Change, END, Look, Row};
use super::standing::{fits, holders, position, refuse_other_capacity, standing};
use crate::clock::{self, Moment};
use crate::engine::{ClaimRef, LeaseId, Standing, Ticket, Withdrawn};
use crate::rule::{self, Watch};

/// How many evictions are kept, and for how long.
const EVICTIONS: i64 = 1000;
const EVICTIONS_FOR_MILLIS: u64 = 30 * 24 * 60 * 60 * 1000;

/// Puts the claim at the end of its queue.
pub(super) fn enqueue(
    store: &Store,
    connection: &Connection,
    ticket: &Ticket,
) -> Result<Standing, Fault> {
    if !ticket.waits && is_busy(store, connection, ticket)? {
        return Ok(Standing::Busy);
    }
    let name = ticket.claim.name.as_str();
    let write = store.begin(connection)?;
    let mut change = Change::new(store, &write, clock::boot_time());
    let Some(order) = draw(&change, ticket.lease)? else {
        return Ok(Standing::Gone);
    };
    let mut rows = queue::read(connection, name, END)?;
    let is_other = |row: &Row| row.capacity != ticket.capacity;
    // Whoever fits beside all that are there need not ask which of them live.
    if !fits(ticket, &rows) || rows.iter().any(is_other) {
        change.settle(name, &rows, is_other)?;
        if change.has_buried {
            rows = queue::read(connection, name, END)?;
        }
    }
    let standing = match position(&rows, ticket) {
        Some(mine) => Some(standing(&rows, mine)),
        None => {
            refuse_other_capacity(ticket, &rows)?;
            if ticket.waits || fits(ticket, &rows) {
                rows.push(insert(&change, ticket, order)?);
                Some(standing(&rows, rows.len() - 1))
            } else {
                None
            }
        }
    };
    if let (Some(Standing::Waiting { .. }), Some(mine)) = (standing, position(&rows, ticket)) {
        // Before the commit: from then on others may tell us of this claim.
        store.ours.waits(ticket.claim.id, rows[mine].claim.order);
    }
    let afterwards = change.afterwards;
    store.commit(write)?;
    afterwards.carry_out(store);
    Ok(standing.unwrap_or(Standing::Busy))
}

/// Whether a claim that does not wait has no chance, found out by reading only,
/// so that many who try do not keep those who release from writing.
fn is_busy(store: &Store, connection: &Connection, ticket: &Ticket) -> Result<bool, Fault> {
    let now = clock::boot_time();
    let rows = queue::read(connection, ticket.claim.name.as_str(), END)?;
    if position(&rows, ticket).is_some() || fits(ticket, &rows) {
        return Ok(false);
    }
    // A capacity of another mind is an error, and a dead claim is removed; both
    // need a closer look.
    let is_plain = |row: &Row| {
        row.capacity == ticket.capacity
            && !row.has_ended(now)
            && !store.is_process_gone(row.session)
    };
    let holders = holders(&rows);
    // Only those who hold and the first to wait can be in the way.
    Ok(rows.iter().take(holders + 1).all(is_plain))
}

/// What a claim sees when it looks along its queue.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) standing: Standing,
    /// The sessions whose end would matter, and when their leases end.
    pub(super) blockers: Vec<(LeaseId, Option<Moment>)>,
    /// When that was, read before the queue was.
    pub(super) now: Moment,
}

/// Looks without writing. A claim that is dead but still there counts, so the
/// answer "held" never rests on ignoring one.
pub(super) fn look(
    connection: &Connection,
    ticket: &Ticket,
    place: u64,
    watch: Watch,
) -> Result<Sight, Fault> {
    let now = clock::boot_time();
    if let Watch::One(order) = watch
        && let Some(sight) = look_at(connection, ticket, place, order, now)?
    {
        return Ok(sight);
    }
    let rows = queue::read(connection, ticket.claim.name.as_str(), place)?;
    let Some(mine) = position(&rows, ticket).filter(|&mine| !rows[mine].has_ended(now)) else {
        return Ok(Sight {
            standing: Standing::Gone,
            blockers: Vec::new(),
            now,
        });
    };
    let standing = standing(&rows, mine);
    let before = &rows[..mine];
    let blocking = match standing {
        Standing::Waiting {
            watch: Watch::One(order),
            ..
        } => before.iter().position(|row| row.claim.order == order),
        _ => None,
    };
    let blocking = match (standing, blocking) {
        (Standing::Waiting { .. }, Some(one)) => &before[one..=one],
        // Nobody passes the first to wait. It watches those who hold, the others
        // watch it.
        (Standing::Waiting { .. }, None) => {
            let first = holders(&rows);
            before.get(first..=first).unwrap_or(before)
        }
        _ => &[],
    };
    let mut blockers: Vec<_> = blocking
        .iter()
        .map(|row| (row.session, row.expires))
        .collect();
    blockers.sort_unstable_by_key(|(session, _)| *session);
    blockers.dedup_by_key(|(session, _)| *session);
    Ok(Sight {
        standing,
        blockers,
        now,
    })
}

/// Looks only at the claim and the one it watches: while both stand, the others
/// do not matter. So many who wait do not all read the whole queue each time.
fn look_at(
    connection: &Connection,
    ticket: &Ticket,
    place: u64,
    watched: u64,
    now: Moment,
) -> Result<Option<Sight>, Fault> {
    let mut select = connection.prepare_cached(include_str!("sql/watched.sql"))?;
    let places = (
        ticket.claim.name.as_str(),
        watched.cast_signed(),
        place.cast_signed(),
    );
    let rows: Vec<(Row, u32)> = select
        .query_map(places, |row| Ok((Row::read(row)?, row.get(6)?)))?
        .collect::<Result<_, _>>()?;
    let [(blocker, _), (mine, ahead)] = rows[..] else {
        return Ok(None);
    };
    if mine.ticket != ticket.claim.id || mine.has_ended(now) {
        return Ok(None);
    }
    let watch = Watch::One(watched);
    Ok(Some(Sight {
        standing: Standing::Waiting { watch, ahead },
        blockers: vec![(blocker.session, blocker.expires)],
        now,
    }))
}

/// Removes what is dead before the claim, the suspects too if their process is
/// gone, and says where the claim stands then.
pub(super) fn take_over(
    store: &Store,
    connection: &Connection,
    ticket: &Ticket,
    place: u64,
    suspects: &[LeaseId],
) -> Result<Standing, Fault> {
    let name = ticket.claim.name.as_str();
    let write = store.begin(connection)?;
    let mut change = Change::new(store, &write, clock::boot_time());
    let rows = queue::read(connection, name, place)?;
    change.settle(name, &rows, |row| suspects.contains(&row.session))?;
    let rows = queue::read(connection, name, place)?;
    let standing = match position(&rows, ticket) {
        Some(mine) => standing(&rows, mine),
        None => Standing::Gone,
    };
    let afterwards = change.afterwards;
    store.commit(write)?;
    afterwards.carry_out(store);
    Ok(standing)
}

/// Who broke a claim, and why.
#[derive(Debug, Clone)]
pub(super) struct Breaker {
    pub(super) by: String,
    pub(super) reason: String,
}

/// Takes the claim out of its queue and tells those it stood in the way of.
pub(super) fn withdraw(
    store: &Store,
    connection: &Connection,
    claim: &ClaimRef,
    breaker: Option<&Breaker>,
) -> Result<Withdrawn, Fault> {
    let name = claim.name.as_str();
    let ticket = claim.id.0.to_be_bytes();
    if breaker.is_none() {
        // Here, where the connection is ours: an enqueue that was given up may
        // have been under way until now, and cannot be any more.
        store.ours.waits_no_more(claim.id);
    }
    let write = store.begin(connection)?;
    let mut change = Change::new(store, &write, clock::boot_time());
    if breaker.is_none() && change.walk(name, &[], Some(claim.id), Look::AtNew)? {
        let afterwards = change.afterwards;
        store.commit(write)?;
        afterwards.carry_out(store);
        return Ok(Withdrawn::Removed);
    }
    // Asking a deletion what it deleted would be one statement less, but costs a
    // temporary table each time.
    let found = connection
        .prepare_cached(include_str!("sql/find.sql"))?
        .query_row((name, ticket), |row| {
            let left = rule::Claim {
                order: row.get::<_, i64>(0)?.cast_unsigned(),
                weight: row.get(1)?,
            };
            let session = LeaseId(u128::from_be_bytes(row.get(2)?));
            Ok((left, session, row.get::<_, Option<String>>(3)?))
        })
        .optional()?;
    let Some((left, session, label)) = found else {
        return Ok(Withdrawn::Absent);
    };
    change.remove(name, left.order)?;
    if let Some(Breaker { by, reason }) = breaker {
        let token = left.order.cast_signed();
        let at = millis(clock::wall_time().as_millis());
        let session_bytes = session.0.to_be_bytes();
        connection
            .prepare_cached(include_str!("sql/evict.sql"))?
            .execute((session_bytes, ticket, name, token, by, reason, at, label))?;
        let old = at.saturating_sub(EVICTIONS_FOR_MILLIS.cast_signed());
        connection
            .prepare_cached(include_str!("sql/forget.sql"))?
            .execute((old, EVICTIONS))?;
        change.afterwards.tell(session, Message::Renew);
        change.afterwards.tell(session, Message::Look(claim.id));
    }
    change.walk(name, &[left], None, Look::AtNew)?;
    let afterwards = change.afterwards;
    store.commit(write)?;
    afterwards.carry_out(store);
    Ok(Withdrawn::Removed)
}

fn millis(number: u128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The order for a new claim; `None` if the lease has ended. It is not used up
/// before a claim is inserted, and nobody else can draw meanwhile.
fn draw(change: &Change<'_, '_>, lease: LeaseId) -> Result<Option<i64>, Fault> {
    let connection = change.write.connection;
    let mut select = connection.prepare_cached(include_str!("sql/draw.sql"))?;
    let (order, expires): (i64, Option<i64>) = select
        .query_row([lease.0.to_be_bytes()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let is_alive = |nanos: i64| Moment::from_nanos(nanos.cast_unsigned()) > change.now;
    Ok(expires.is_some_and(is_alive).then_some(order))
}

fn insert(change: &Change<'_, '_>, ticket: &Ticket, place: i64) -> Result<Row, Fault> {
    let connection = change.write.connection;
    let next = place.saturating_add(super::TOKENS_PER_GRANT.into());
    connection
        .prepare_cached(include_str!("sql/drawn.sql"))?
        .execute([next])?;
    connection
        .prepare_cached(include_str!("sql/enqueue.sql"))?
        .execute((
            ticket.claim.name.as_str(),
            place,
            ticket.claim.id.0.to_be_bytes(),
            ticket.lease.0.to_be_bytes(),
            ticket.holder.cast_signed(),
            ticket.capacity,
            ticket.weight,
            ticket.label.as_deref(),
            change.now.nanos().cast_signed(),
        ))?;
    Ok(Row {
        claim: rule::Claim {
            order: place.cast_unsigned(),
            weight: ticket.weight,
        },
        capacity: ticket.capacity,
        ticket: ticket.claim.id,
        session: ticket.lease,
        expires: None,
    })
}
