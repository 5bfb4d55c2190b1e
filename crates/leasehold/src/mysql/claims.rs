//! What happens to claims: mostly one request each.

use std::sync::Arc;

use super::MysqlEngine;
use super::inbox::{Mine, OpenLease};
use super::layout::stripe;
use super::look::Line;
use super::pool::Lane;
use super::takeover::{ENDED, take_over};
use super::text::{
    column, lease as lease_literal, list, name as name_literal, number, quoted, quoted_or_null,
    ticket as ticket_literal,
};
use crate::engine::{ClaimRef, Lease, Standing, Ticket, Withdrawn};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::rule;

/// How often a request is made anew because requests were called back or somebody
/// dead was in the way.
const ROUNDS: u32 = 20;

/// Puts the claim at the end of its queue.
pub(super) async fn enqueue(engine: &MysqlEngine, ticket: &Ticket) -> Result<Standing> {
    let Some(open) = engine.inbox.lease(ticket.lease) else {
        return Ok(Standing::Gone);
    };
    let mine = engine.inbox.admit(ticket);
    let mut may_bury = true;
    for _ in 0..ROUNDS {
        let line = ask_for(engine, ticket, &mine, &open).await?;
        if line.place_of(ticket.claim.id).is_some() {
            return Ok(line.standing(&mine));
        }
        let other = line.other_capacity(ticket.capacity);
        let has_room = line.has_room(ticket.capacity, ticket.weight);
        let is_refused = other.is_some() || !has_room && !ticket.waits;
        if is_refused && may_bury && line.has_dead() {
            may_bury = false;
            take_over(engine, &ticket.claim.name).await?;
            continue;
        }
        if is_refused {
            dissolve(engine, &mine).await?;
        }
        if let Some(used) = other {
            let why = rule::mismatch(ticket.capacity, used);
            let error = Error::new(ErrorKind::Conflict, doing(ticket), why);
            return Err(error.on(&*engine.pool.label));
        }
        if is_refused {
            return Ok(Standing::Busy);
        }
        match epoch(engine, ticket).await? {
            Some(epoch) => open.learn_epoch(epoch),
            None => return Ok(Standing::Gone),
        }
    }
    let why = "requests are called back faster than they can be made";
    Err(Error::new(ErrorKind::Unavailable, doing(ticket), why).on(&*engine.pool.label))
}

async fn ask_for(
    engine: &MysqlEngine,
    ticket: &Ticket,
    mine: &Mine,
    open: &OpenLease,
) -> Result<Line> {
    let name = ticket.claim.name.as_str();
    let text = format!(
        include_str!("sql/enqueue.sql"),
        server = engine.kind.identity(),
        stripe = engine.tables.stripe,
        claim = engine.tables.claim,
        session = engine.tables.session,
        number = stripe(name),
        name = name_literal(name),
        ticket = ticket_literal(ticket.claim.id),
        lease = lease_literal(ticket.lease),
        epoch = open.epoch(),
        holder = ticket.holder,
        capacity = ticket.capacity,
        weight = ticket.weight,
        waits = ticket.waits,
        label = quoted_or_null(ticket.label.as_deref()),
        look = engine.look_text(name),
    );
    let doing = || doing(ticket);
    mine.asked();
    let answer = engine.ask(&text, doing).await;
    let is_sure = match &answer {
        Ok(answer) => !answer.is_repeated,
        Err(error) => error.effect() == Effect::None,
    };
    if is_sure {
        mine.answered();
    }
    Line::read(&answer?.rows, doing, &engine.pool.label)
}

/// The epoch of the session, if it lives.
async fn epoch(engine: &MysqlEngine, ticket: &Ticket) -> Result<Option<u64>> {
    let text = format!(
        "select epoch from {} where id = {} and expires > utc_timestamp(6)",
        engine.tables.session,
        lease_literal(ticket.lease),
    );
    let answer = engine.ask(&text, || doing(ticket)).await?;
    Ok(answer.rows.first().and_then(|row| number(row, 0)))
}

/// Nobody withdraws what was not given, so nothing may be left that could still
/// come.
async fn dissolve(engine: &MysqlEngine, mine: &Mine) -> Result<()> {
    if mine.is_in_doubt() {
        leave(engine, mine).await?;
    }
    engine.inbox.forget(mine.claim.id);
    Ok(())
}

/// Takes out a claim of this session.
pub(super) async fn withdraw(engine: &MysqlEngine, claim: &ClaimRef) -> Result<Withdrawn> {
    let Some(mine) = engine.inbox.claim(claim.id) else {
        let which = format!("ticket = {}", ticket_literal(claim.id));
        let text = text_of_withdrawal(engine, claim, &which, "");
        return take_out(engine, claim, &text).await.map(|(found, _)| found);
    };
    // It is known until it is surely out, so that closing does not overlook it.
    let found = leave(engine, &mine).await?;
    engine.inbox.forget(claim.id);
    Ok(found)
}

/// Takes out a claim of ours. If a request for it may still be on its way, it is
/// called back: whoever has the queue after us finds another epoch.
async fn leave(engine: &MysqlEngine, mine: &Mine) -> Result<Withdrawn> {
    mine.leaves();
    let is_in_doubt = mine.is_in_doubt();
    let place = mine.order().filter(|_| !is_in_doubt);
    let ticket = ticket_literal(mine.claim.id);
    let which = match place {
        Some(place) => format!("place = {place} and ticket = {ticket}"),
        None => format!("ticket = {ticket}"),
    };
    let callback = match is_in_doubt {
        true => format!(
            include_str!("sql/callback.sql"),
            stripe = engine.tables.stripe,
            session = engine.tables.session,
            number = stripe(mine.claim.name.as_str()),
            lease = lease_literal(mine.lease),
        ),
        false => String::new(),
    };
    let text = text_of_withdrawal(engine, &mine.claim, &which, &callback);
    let (found, epoch) = take_out(engine, &mine.claim, &text).await?;
    if is_in_doubt {
        mine.nothing_comes_any_more();
        if let (Some(open), Some(epoch)) = (engine.inbox.lease(mine.lease), epoch) {
            open.learn_epoch(epoch);
        }
    }
    Ok(found)
}

fn text_of_withdrawal(
    engine: &MysqlEngine,
    claim: &ClaimRef,
    which: &str,
    callback: &str,
) -> String {
    format!(
        include_str!("sql/withdraw.sql"),
        claim = engine.tables.claim,
        name = name_literal(claim.name.as_str()),
        which = which,
        callback = callback,
    )
}

/// Breaks a claim, whoever's it is.
pub(super) async fn evict(
    engine: &MysqlEngine,
    claim: &ClaimRef,
    by: &str,
    reason: &str,
) -> Result<Withdrawn> {
    let text = format!(
        include_str!("sql/evict.sql"),
        claim = engine.tables.claim,
        session = engine.tables.session,
        eviction = engine.tables.eviction,
        name = name_literal(claim.name.as_str()),
        ticket = ticket_literal(claim.id),
        by = quoted(by),
        reason = quoted(reason),
    );
    let (found, _) = take_out(engine, claim, &text).await?;
    Ok(found)
}

async fn take_out(
    engine: &MysqlEngine,
    claim: &ClaimRef,
    text: &str,
) -> Result<(Withdrawn, Option<u64>)> {
    let doing = || format!("withdraw {}", claim.name);
    let asking = engine.ask_or_locked(text, doing);
    let Some(answer) = asking.await? else {
        let why = "a transaction that the lock fences is still open";
        let error = Error::new(ErrorKind::Unavailable, doing(), why);
        return Err(error.on(&*engine.pool.label));
    };
    let mut epoch = None;
    let mut found = match answer.is_repeated {
        // What the first of two requests took out, the second does not find.
        true => Withdrawn::Removed,
        false => Withdrawn::Absent,
    };
    for row in &answer.rows {
        match column(row, 0).as_deref() {
            Some("epoch") => epoch = number(row, 1),
            _ => found = Withdrawn::Removed,
        }
    }
    Ok((found, epoch))
}

/// Ends the lease and takes out its claims.
pub(super) async fn close(engine: &MysqlEngine, lease: &Lease) -> Result<()> {
    let doing = || "close the session".to_owned();
    let id = lease_literal(lease.id);
    let (session, claim) = (&engine.tables.session, &engine.tables.claim);
    engine.inbox.close_lease(lease.id);
    let claims = engine.inbox.claims_of(lease.id);
    // From here on nothing more is put under this lease.
    let end = format!("update {session} set expires = {ENDED} where id = {id}");
    engine.pool.ask_on(Lane::Leases, &end, doing).await?;
    // Requests that read the session before that have their queue for now.
    for mine in claims.iter().filter(|mine| mine.is_in_doubt()) {
        leave(engine, mine).await?;
    }
    let mut talk = engine.pool.talk(doing).await?;
    let begin = format!(
        "set transaction isolation level read committed; start transaction read write; \
         select place from {claim} where session = {id} for update skip locked"
    );
    let rows = talk.say(&begin, doing).await?;
    let places = rows.iter().filter_map(|row| number::<u64>(row, 0));
    let places = list(places.map(|place| place.to_string()));
    // A claim that a transaction is fenced by stays, and the row with it.
    let finish = format!(
        "delete from {claim} where session = {id} and place in {places}; \
         delete from {session} where id = {id} \
         and not exists (select 1 from {claim} c where c.session = {id}); commit"
    );
    talk.say(&finish, doing).await?;
    talk.end();
    let forget = |mine: &Arc<Mine>| engine.inbox.forget(mine.claim.id);
    claims.iter().for_each(forget);
    Ok(())
}

fn doing(ticket: &Ticket) -> String {
    format!("lock {}", ticket.claim.name)
}
