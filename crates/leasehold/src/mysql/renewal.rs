//! Keeping a lease, and finding out which claims are gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sqlx_mysql::MySqlRow;

use super::MysqlEngine;
use super::fault::is_read_only;
use super::inbox::Mine;
use super::layout::WRITABLE;
use super::line::guarded;
use super::pool::{Answer, Lane, READ_COMMITTED};
use super::term::settle;
use super::text::{bits, column, hex_text, lease as lease_literal, list, ticket as ticket_literal};
use super::text::{name as name_literal, number};
use super::tie::is_tied;
use crate::engine::{GoneClaim, Lease, Renewal, TicketId};
use crate::error::Result;
use crate::guard::Lost;

const DOING: &str = "renew";
/// How many notes one statement asks for.
const AT_ONCE: usize = 1000;

/// Renews with one statement, whatever the number of claims, and looks at what
/// the store has of them.
pub(super) async fn renew(engine: &MysqlEngine, lease: &Lease) -> Result<Renewal> {
    if engine.inbox.lease(lease.id).is_none() {
        return Ok(Renewal::LeaseGone);
    }
    let mut held = engine.inbox.claims_of(lease.id);
    held.retain(|mine| mine.held().is_some());
    let answer = ask(engine, lease).await;
    if engine.is_tied && is_elsewhere(&answer) {
        // The connection keeps what nobody counts on any more.
        engine.pool.forget_connections();
        return Ok(Renewal::LeaseGone);
    }
    let mut answer = answer?;
    let first = answer.rows.first();
    if engine.is_tied && !first.is_some_and(is_alive) {
        return Ok(Renewal::LeaseGone);
    }
    if first.and_then(|row| column(row, 2)).as_deref() == Some("0") {
        // What it forgot of our renewals is made good with the beginning of its term.
        settle(engine, Lane::Leases, || DOING.into()).await?;
        answer = ask(engine, lease).await?;
    }
    let mut rows = answer.rows.iter();
    let Some(first) = rows.next().filter(|row| is_alive(row)) else {
        return Ok(Renewal::LeaseGone);
    };
    engine.meets(&column(first, 1).unwrap_or_default());
    engine.learns_term(number(first, 3).unwrap_or(0));
    let stored: Vec<Stored> = rows.filter_map(Stored::read).collect();
    // The lease is kept by now, and nothing that comes after may spoil that. The
    // next renewal tries again.
    let moment = lease.ttl / 24;
    let giving = give_back_forgotten(engine, &stored);
    let _ = tokio::time::timeout(moment, giving).await;
    let known: HashSet<_> = stored
        .iter()
        .map(|claim| (claim.ticket, claim.place))
        .collect();
    let missing = held.into_iter().filter(|mine| {
        // What was given back meanwhile is not missed.
        let order = mine.held();
        order.is_some_and(|order| !known.contains(&(mine.claim.id, order)))
    });
    let missing: Vec<_> = missing.collect();
    let asking = notes_on(engine, &missing);
    let notes = tokio::time::timeout(moment, asking).await;
    // Why they are gone is for people; that they are is not to be kept back for it.
    let notes = notes.ok().and_then(Result::ok).unwrap_or_default();
    let gone = missing.iter().map(|mine| {
        let id = mine.claim.id;
        let note = notes.get(&id).cloned();
        let lost = match note {
            Some(_) => Lost::Evicted,
            None => Lost::Gone,
        };
        GoneClaim { id, lost, note }
    });
    let gone = gone.collect();
    Ok(Renewal::Renewed { gone })
}

fn is_alive(row: &MySqlRow) -> bool {
    column(row, 0).as_deref() == Some("1")
}

/// Whether the server takes no writes any more. Another one may take them by now, and
/// there no tie of ours is known: what we hold is free for others, at once.
fn is_elsewhere(answer: &Result<Answer>) -> bool {
    match answer {
        Ok(answer) => {
            let row = answer.rows.first();
            row.and_then(|row| column(row, 4)).as_deref() == Some("0")
        }
        Err(error) => is_read_only(error),
    }
}

impl MysqlEngine {
    /// Where what comes beside a renewal goes: to be given up there costs no tie.
    fn beside_leases(&self) -> Lane {
        match self.is_tied {
            true => Lane::Aside,
            false => Lane::Leases,
        }
    }
}

async fn ask(engine: &MysqlEngine, lease: &Lease) -> Result<Answer> {
    let text = format!(
        include_str!("sql/renew.sql"),
        session = engine.tables.session,
        claim = engine.tables.claim,
        meta = engine.tables.meta,
        server = engine.kind.identity(),
        current = engine.current_text(),
        writable = WRITABLE,
        is_tied = match engine.is_tied {
            true => is_tied(lease.id),
            false => "1".into(),
        },
        lease = lease_literal(lease.id),
        ttl = whole_micros(lease.ttl),
    );
    let asking = engine.pool.ask_on(Lane::Leases, &text, || DOING.into());
    asking.await
}

/// A claim as the store has it.
struct Stored {
    name: String,
    place: u64,
    ticket: TicketId,
}

impl Stored {
    fn read(row: &MySqlRow) -> Option<Self> {
        Some(Self {
            name: hex_text(row, 0)?,
            place: number(row, 1)?,
            ticket: TicketId(bits(row, 2)?),
        })
    }
}

/// A failover may have forgotten that a claim was given back; nobody else would
/// ever take it out while our session lives. Every claim is known here before it
/// is asked for, so what is not known is not wanted.
async fn give_back_forgotten(engine: &MysqlEngine, stored: &[Stored]) -> Result<()> {
    for claim in stored {
        if engine.inbox.claim(claim.ticket).is_none() {
            let text = format!(
                "{READ_COMMITTED}; update {table} set ticket = null \
                 where name = {name} and seat = 0 and ticket = {ticket}; delete from {table} \
                 where name = {name} and seat = {seat} and ticket = {ticket}; commit",
                table = engine.tables.claim,
                name = name_literal(&claim.name),
                seat = claim.place,
                ticket = ticket_literal(claim.ticket),
            );
            let lane = engine.beside_leases();
            let text = guarded(&text);
            engine.pool.ask_on(lane, &text, || DOING.into()).await?;
        }
    }
    Ok(())
}

/// By whom and why those of the missing were broken that were.
async fn notes_on(
    engine: &MysqlEngine,
    missing: &[Arc<Mine>],
) -> Result<HashMap<TicketId, String>> {
    let mut notes = HashMap::new();
    for part in missing.chunks(AT_ONCE) {
        let tickets = part.iter().map(|mine| ticket_literal(mine.claim.id));
        let query = format!(
            "select hex(ticket), hex(evicted_by), hex(reason) from {} where ticket in {}",
            engine.tables.eviction,
            list(tickets),
        );
        let lane = engine.beside_leases();
        let answer = engine.pool.ask_on(lane, &query, || DOING.into()).await?;
        notes.extend(answer.rows.iter().filter_map(|row| {
            let id = TicketId(bits(row, 0)?);
            let by = hex_text(row, 1)?;
            let note = match hex_text(row, 2)?.as_str() {
                "" => format!("by {by}"),
                reason => format!("by {by}: {reason}"),
            };
            Some((id, note))
        }));
    }
    Ok(notes)
}

/// Never less than asked for: the session counts on all of it.
pub(super) fn whole_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}
