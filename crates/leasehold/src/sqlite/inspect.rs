//! What people see of the locks. Read only.

use std::time::Duration;

use rusqlite::Connection;

use super::database::Store;
use super::fault::Fault;
use super::queue::Row;
use crate::clock::{self, Moment};
use crate::engine::{Claimant, Eviction, LeaseId, Owner, Queue};
use crate::fence::Token;
use crate::name::Name;
use crate::rule;

/// The lock's living claims in order, and what was broken of late.
pub(super) fn queue(store: &Store, connection: &Connection, name: &Name) -> Result<Queue, Fault> {
    let now = clock::boot_time();
    let mut select = connection.prepare_cached(include_str!("sql/claimants.sql"))?;
    let all = select.query_map([name.as_str()], |row| {
        Ok((Row::read(row)?, claimant(row, now)?))
    })?;
    let mut claims = Vec::new();
    let mut claimants = Vec::new();
    let mut capacity = 0;
    for pair in all {
        let (row, claimant) = pair?;
        if !row.has_ended(now) && !store.is_process_gone(row.session) {
            capacity = row.capacity;
            claims.push(row.claim);
            claimants.push(claimant);
        }
    }
    let holders = rule::holders(capacity, &claims);
    for (claimant, claim) in claimants.iter_mut().zip(&claims).take(holders) {
        claimant.is_holder = true;
        claimant.token = Some(Token::new(claim.order));
    }
    Ok(Queue {
        capacity,
        claims: claimants,
        evictions: evictions(connection, name)?,
    })
}

fn claimant(row: &rusqlite::Row<'_>, now: Moment) -> rusqlite::Result<Claimant> {
    let Row {
        claim,
        ticket,
        session,
        expires,
        ..
    } = Row::read(row)?;
    let since = Moment::from_nanos(row.get::<_, i64>(7)?.cast_unsigned());
    let (host, pid, label): (String, u32, String) = (row.get(8)?, row.get(9)?, row.get(10)?);
    Ok(Claimant {
        id: ticket,
        owner: Owner::seen(host, pid, label),
        session: Some(session),
        is_holder: false,
        weight: claim.weight,
        token: None,
        holder: row.get::<_, i64>(6)?.cast_unsigned(),
        age: now.since(since),
        time_left: expires.map_or(Duration::ZERO, |expires| expires.since(now)),
    })
}

fn evictions(connection: &Connection, name: &Name) -> Result<Vec<Eviction>, Fault> {
    let mut select = connection.prepare_cached(include_str!("sql/evictions.sql"))?;
    let rows = select.query_map([name.as_str()], |row| {
        let (host, pid, label): (String, u32, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(Eviction {
            owner: Owner::seen(host, pid, label),
            token: Token::new(row.get::<_, i64>(0)?.cast_unsigned()),
            by: row.get(4)?,
            reason: row.get(5)?,
            at: Duration::from_millis(row.get::<_, i64>(6)?.unsigned_abs()),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The names with living claims, sorted: the table is in the order of names.
pub(super) fn names(
    store: &Store,
    connection: &Connection,
    prefix: &str,
) -> Result<Vec<Name>, Fault> {
    let now = clock::boot_time().nanos().cast_signed();
    let mut select = connection.prepare_cached(include_str!("sql/names.sql"))?;
    let mut rows = select.query((prefix, now))?;
    let mut names: Vec<Name> = Vec::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        if !name.starts_with(prefix) {
            break;
        }
        let session = LeaseId(u128::from_be_bytes(row.get(1)?));
        let is_known = names.last().is_some_and(|last| last.as_str() == name);
        if !is_known && !store.is_process_gone(session) {
            names.extend(Name::new(name));
        }
    }
    Ok(names)
}
