//! What happens to claims: each is one request.

use std::sync::Arc;

use super::PostgresEngine;
use super::answer::{Answer, strange};
use super::inbox::{Mine, OpenLease};
use super::pool::Lane;
use super::text::{array, column, lease as lease_id, number, numbers, parsed, record};
use super::text::{quoted, quoted_or_null, ticket as ticket_id};
use crate::engine::{ClaimRef, Lease, Standing, Ticket, Together, Withdrawn};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Token;
use crate::rule;

/// How often a request is made anew because requests were called back.
const ROUNDS: u32 = 20;
/// How many locks are taken in one step at most: each takes room in a table
/// that all transactions of the server share.
const TOGETHER: usize = 64;

/// Puts the claim at the end of its queue.
pub(super) async fn enqueue(engine: &PostgresEngine, ticket: &Ticket) -> Result<Standing> {
    let Some(open) = engine.inbox.lease(ticket.lease) else {
        return Ok(Standing::Gone);
    };
    let mine = engine.inbox.admit(ticket);
    for _ in 0..ROUNDS {
        match ask_for(engine, ticket, &mine, &open).await? {
            Answer::Late { epoch } => open.learn_epoch(epoch),
            Answer::Conflict { used } => {
                dissolve(engine, &mine).await?;
                let why = rule::mismatch(ticket.capacity, used);
                let error = Error::new(ErrorKind::Conflict, doing(ticket), why);
                return Err(error.on(&*engine.pool.label));
            }
            Answer::Busy => {
                dissolve(engine, &mine).await?;
                return Ok(Standing::Busy);
            }
            answer => {
                let standing = answer.into_standing(&mine);
                return standing.ok_or_else(|| strange(doing(ticket), &engine.pool.label));
            }
        }
    }
    Err(too_lively(engine, doing(ticket)))
}

async fn ask_for(
    engine: &PostgresEngine,
    ticket: &Ticket,
    mine: &Mine,
    open: &OpenLease,
) -> Result<Answer> {
    let name = quoted(ticket.claim.name.as_str());
    let others = format!(
        "{}, {}, {}, {}, {}, {}, {}, {}",
        ticket_id(ticket.claim.id),
        lease_id(ticket.lease),
        open.epoch(),
        ticket.holder.cast_signed(),
        ticket.capacity,
        ticket.weight,
        ticket.waits,
        quoted_or_null(ticket.label.as_deref()),
    );
    let doing = || doing(ticket);
    mine.asked();
    let answer = match ticket.waits {
        true => {
            let asking = engine.change(Lane::InLine, "enqueue", &name, &others, doing);
            asking.await
        }
        // It reads first, and mostly that is all.
        false => {
            let arguments = format!("{name}, {others}");
            let asking = engine.call_for_record(Lane::InLine, "enqueue", &arguments, doing);
            asking.await
        }
    };
    if is_sure(&answer) {
        mine.answered();
    }
    Answer::read(&answer?.rows).ok_or_else(|| strange(doing(), &engine.pool.label))
}

/// Whether nothing of the request can still be on its way.
fn is_sure(answer: &Result<super::pool::Answer>) -> bool {
    match answer {
        Ok(answer) => !answer.is_repeated,
        Err(error) => error.effect() == Effect::None,
    }
}

/// Nobody withdraws what was not given, so nothing may be left that could still
/// come.
async fn dissolve(engine: &PostgresEngine, mine: &Mine) -> Result<()> {
    if mine.is_in_doubt() {
        leave(engine, mine).await?;
    }
    engine.inbox.forget(mine.claim.id);
    Ok(())
}

/// All of them, or none.
pub(super) async fn enqueue_all(engine: &PostgresEngine, tickets: &[Ticket]) -> Result<Together> {
    let Some(first) = tickets.first() else {
        return Ok(Together::Held(Vec::new()));
    };
    let is_of_one = tickets.iter().all(|ticket| ticket.lease == first.lease);
    let open = engine.inbox.lease(first.lease);
    let Some(open) = open.filter(|_| is_of_one && tickets.len() <= TOGETHER) else {
        return Ok(Together::Separately);
    };
    let claims: Vec<_> = tickets.iter().map(|t| engine.inbox.admit(t)).collect();
    for _ in 0..ROUNDS {
        let (answer, epoch, places) = ask_for_all(engine, tickets, &claims, &open).await?;
        match answer.as_str() {
            "late" => open.learn_epoch(epoch.unwrap_or(0)),
            "held" if places.len() == claims.len() => {
                for (mine, place) in claims.iter().zip(&places) {
                    mine.is_held(*place);
                }
                return Ok(Together::Held(places.into_iter().map(Token::new).collect()));
            }
            answer => {
                for mine in &claims {
                    dissolve(engine, mine).await?;
                }
                // One by one it comes out what is wrong.
                return Ok(match answer {
                    "busy" => Together::Busy,
                    _ => Together::Separately,
                });
            }
        }
    }
    Err(too_lively(engine, doing(first)))
}

type AllAnswer = (String, Option<u64>, Vec<u64>);

async fn ask_for_all(
    engine: &PostgresEngine,
    tickets: &[Ticket],
    claims: &[Arc<Mine>],
    open: &OpenLease,
) -> Result<AllAnswer> {
    let all = |write: fn(&Ticket) -> String| tickets.iter().map(write);
    let arguments = format!(
        "{}, {}, {}, {}, {}, {}, {}, {}",
        array("text", all(|t| quoted(t.claim.name.as_str()))),
        array("uuid", all(|t| ticket_id(t.claim.id))),
        lease_id(open.lease.id),
        open.epoch(),
        array("bigint", all(|t| t.holder.cast_signed().to_string())),
        array("bigint", all(|t| t.capacity.to_string())),
        array("bigint", all(|t| t.weight.to_string())),
        array("text", all(|t| quoted_or_null(t.label.as_deref()))),
    );
    let doing = || doing(&tickets[0]);
    claims.iter().for_each(|mine| mine.asked());
    let answer = engine
        .call(Lane::InLine, "enqueue_all", &arguments, doing)
        .await;
    if is_sure(&answer) {
        claims.iter().for_each(|mine| mine.answered());
    }
    let answer = answer?;
    let row = answer.rows.first();
    let read = row.and_then(|row| {
        let places = column(row, 1).and_then(numbers).unwrap_or_default();
        Some((column(row, 0)?.to_owned(), number(row, 2), places))
    });
    read.ok_or_else(|| strange(doing(), &engine.pool.label))
}

/// Takes out a claim of this session.
pub(super) async fn withdraw(engine: &PostgresEngine, claim: &ClaimRef) -> Result<Withdrawn> {
    let Some(mine) = engine.inbox.claim(claim.id) else {
        let arguments = format!(
            "{}, null, {}, null",
            quoted(claim.name.as_str()),
            ticket_id(claim.id)
        );
        return take_out(engine, claim, "withdraw", &arguments)
            .await
            .map(|(found, _)| found);
    };
    // It is known until it is surely out, so that closing does not overlook it.
    let found = leave(engine, &mine).await?;
    engine.inbox.forget(claim.id);
    Ok(found)
}

/// Takes out a claim of ours. If a request for it may still be on its way, it
/// is called back.
async fn leave(engine: &PostgresEngine, mine: &Mine) -> Result<Withdrawn> {
    mine.leaves();
    let is_in_doubt = mine.is_in_doubt();
    let name = quoted(mine.claim.name.as_str());
    let ticket = ticket_id(mine.claim.id);
    if !is_in_doubt {
        let place = mine
            .order()
            .map_or("null".into(), |place| place.to_string());
        let others = format!("{place}, {ticket}, null");
        let doing = || leaving(&mine.claim);
        let asking = engine.change(Lane::Aside, "withdraw", &name, &others, doing);
        return read_out(engine, &mine.claim, &asking.await?).map(|(found, _)| found);
    }
    // It changes the session too, whose row nobody has who waits for a name.
    let arguments = format!("{name}, null, {ticket}, {}", lease_id(mine.lease));
    let (found, epoch) = take_out(engine, &mine.claim, "withdraw", &arguments).await?;
    mine.nothing_comes_any_more();
    if let (Some(open), Some(epoch)) = (engine.inbox.lease(mine.lease), epoch) {
        open.learn_epoch(epoch);
    }
    Ok(found)
}

/// Breaks a claim, whoever's it is.
pub(super) async fn evict(
    engine: &PostgresEngine,
    claim: &ClaimRef,
    by: &str,
    reason: &str,
) -> Result<Withdrawn> {
    let arguments = format!(
        "{}, {}, {}, {}",
        quoted(claim.name.as_str()),
        ticket_id(claim.id),
        quoted(by),
        quoted(reason),
    );
    let (found, _) = take_out(engine, claim, "evict", &arguments).await?;
    Ok(found)
}

async fn take_out(
    engine: &PostgresEngine,
    claim: &ClaimRef,
    function: &str,
    arguments: &str,
) -> Result<(Withdrawn, Option<u64>)> {
    let asking = engine.call_for_record(Lane::Aside, function, arguments, || leaving(claim));
    read_out(engine, claim, &asking.await?)
}

fn leaving(claim: &ClaimRef) -> String {
    format!("withdraw {}", claim.name)
}

/// Whether the claim was there, and the session's epoch.
fn read_out(
    engine: &PostgresEngine,
    claim: &ClaimRef,
    answer: &super::pool::Answer,
) -> Result<(Withdrawn, Option<u64>)> {
    let doing = || leaving(claim);
    let fields = answer.rows.first().map(record).unwrap_or_default();
    let found = match fields.first().copied().flatten() {
        Some("removed") => Withdrawn::Removed,
        // What the first of two requests took out, the second does not find.
        Some("absent") if answer.is_repeated => Withdrawn::Removed,
        Some("absent") => Withdrawn::Absent,
        Some("fenced") => {
            let why = "a transaction that the lock fences is still open";
            let error = Error::new(ErrorKind::Unavailable, doing(), why);
            return Err(error.on(&*engine.pool.label));
        }
        _ => return Err(strange(doing(), &engine.pool.label)),
    };
    Ok((found, parsed(&fields, 1)))
}

/// Ends the lease and takes out its claims.
pub(super) async fn close(engine: &PostgresEngine, lease: &Lease) -> Result<()> {
    let doing = || "close the session".to_owned();
    let end = async |has_claims: bool| {
        let arguments = format!("{}, {has_claims}", lease_id(lease.id));
        engine.call(Lane::AtOnce, "close", &arguments, doing).await
    };
    engine.inbox.close_lease(lease.id);
    let claims = engine.inbox.claims_of(lease.id);
    if !claims.is_empty() {
        // From here on nothing more is put under this lease.
        end(true).await?;
        for part in claims.chunks(TOGETHER) {
            let names = part.iter().map(|mine| quoted(mine.claim.name.as_str()));
            let tickets = part.iter().map(|mine| ticket_id(mine.claim.id));
            let arguments = format!("{}, {}", array("text", names), array("uuid", tickets));
            engine.call(Lane::Aside, "leave", &arguments, doing).await?;
            part.iter()
                .for_each(|mine| engine.inbox.forget(mine.claim.id));
        }
    }
    end(false).await?;
    engine.ears.remove(lease.id).await;
    Ok(())
}

fn doing(ticket: &Ticket) -> String {
    format!("lock {}", ticket.claim.name)
}

/// Somebody always came between.
fn too_lively(engine: &PostgresEngine, doing: String) -> Error {
    let why = "requests are called back faster than they can be made";
    Error::new(ErrorKind::Unavailable, doing, why).on(&*engine.pool.label)
}
