//! What takes a claim out: given back, given up, broken.

use super::MysqlEngine;
use super::claims::read_footing;
use super::company::{Change, Went};
use super::inbox::{Footing, Mine};
use super::line::guarded;
use super::pool::{Lane, Trouble};
use super::prepared::Saying;
use super::text::{
    column, lease as lease_literal, name as name_literal, quoted, ticket as ticket_literal,
};
use super::tie::{next_text, wake};
use crate::engine::{ClaimRef, Withdrawn};
use crate::error::{Error, ErrorKind, Result};

/// Takes out a claim of this session.
pub(super) async fn withdraw(engine: &MysqlEngine, claim: &ClaimRef) -> Result<Withdrawn> {
    let Some(mine) = engine.inbox.claim(claim.id) else {
        let text = engine.leave_text(claim, "");
        let found = take_out(engine, claim, &text).await;
        return found.map(|(found, _)| found);
    };
    // It is known until it is surely out, so that closing does not overlook it.
    let found = leave(engine, &mine).await?;
    engine.inbox.forget(claim.id);
    Ok(found)
}

/// Takes out a claim of ours. If a request for it may still be on its way, it is
/// called back: whoever has the queue after us finds another epoch.
pub(super) async fn leave(engine: &MysqlEngine, mine: &Mine) -> Result<Withdrawn> {
    mine.leaves();
    if !mine.has_left() {
        return Ok(Withdrawn::Absent);
    }
    let (seat, is_fenced) = mine.seat();
    let open = engine.inbox.lease(mine.lease);
    if mine.is_in_doubt()
        && open
            .as_ref()
            .is_some_and(|open| mine.is_too_late_in(open.epoch()))
    {
        // Another callback was the end of it. Whatever came before that is there or
        // has the queue, for which this waits.
        let found = leave_without(engine, mine).await?;
        mine.nothing_comes_any_more();
        return Ok(found);
    }
    if mine.is_in_doubt() {
        let callback = format!(
            include_str!("sql/callback.sql"),
            alone = engine.alone_text(mine.claim.name.as_str()),
            current = engine.granting_text(),
            identity = engine.kind.identity(),
            session = engine.tables.session,
            meta = engine.tables.meta,
            lease = lease_literal(mine.lease),
        );
        let text = engine.leave_text(&mine.claim, &callback);
        let (found, footing) = take_out(engine, &mine.claim, &text).await?;
        mine.nothing_comes_any_more();
        if let (Some(open), Some(footing)) = (open, footing) {
            open.learn(footing);
        }
        return Ok(found);
    }
    if is_fenced || mine.order().is_none() {
        return leave_without(engine, mine).await;
    }
    let doing = || format!("withdraw {}", mine.claim.name);
    let went = match &engine.company {
        Some(company) if seat == 0 => company.go(|| Change::gives(&mine.claim)).await,
        _ => Went::Alone(None),
    };
    engine.hear_of_breaks();
    let (_way, may_be_done) = match went {
        Went::Alone(way) => (way, false),
        Went::Done(_) => return Ok(Withdrawn::Removed),
        Went::NotDone => (None, false),
        Went::InDoubt => (None, true),
        Went::Silent => return Err(engine.pool.trouble(Trouble::Silent, doing())),
    };
    let (give, text);
    let saying = if seat == 0 && !engine.is_tied {
        give = engine.forms.give(mine);
        Saying::Prepared(&give)
    } else {
        text = giving_text(engine, mine, seat);
        Saying::Text(&text)
    };
    let answer = engine.pool.ask_once(Lane::Aside, saying, doing).await;
    engine.hear_of_breaks();
    let answer = answer?;
    if let Some(answer) = &answer {
        wake(engine, &answer.rows).await;
    }
    match answer {
        // What the first of two requests took out, the second does not find.
        Some(answer) if answer.matched > 0 || answer.is_repeated || may_be_done => {
            Ok(Withdrawn::Removed)
        }
        Some(_) => Ok(Withdrawn::Absent),
        None => Err(stays_locked(engine, doing())),
    }
}

/// What gives back a seat, and asks who is to be woken where somebody is.
fn giving_text(engine: &MysqlEngine, mine: &Mine, seat: u64) -> String {
    let (claim, ticket) = (&engine.tables.claim, ticket_literal(mine.claim.id));
    let name = name_literal(mine.claim.name.as_str());
    let change = match seat {
        0 => format!("update {claim} set ticket = null"),
        _ => format!("delete from {claim}"),
    };
    let text = format!("{change} where name = {name} and seat = {seat} and ticket = {ticket}");
    match engine.is_tied {
        true => format!("{text}; {}", next_text(engine, mine)),
        false => text,
    }
}

/// The same, wherever it is, without waiting for a transaction that it fences.
pub(super) async fn leave_without(engine: &MysqlEngine, mine: &Mine) -> Result<Withdrawn> {
    let text = engine.leave_text(&mine.claim, "");
    let found = take_out(engine, &mine.claim, &text).await;
    found.map(|(found, _)| found)
}

fn stays_locked(engine: &MysqlEngine, doing: String) -> Error {
    let why = "a transaction that the lock fences is still open";
    Error::new(ErrorKind::Unavailable, doing, why).on(&*engine.pool.label)
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
) -> Result<(Withdrawn, Option<Footing>)> {
    let doing = || format!("withdraw {}", claim.name);
    let text = guarded(text);
    let asking = engine.ask_or_locked(&text, doing);
    let Some(answer) = asking.await? else {
        return Err(stays_locked(engine, doing()));
    };
    let mut footing = None;
    let mut found = match answer.is_repeated {
        // What the first of two requests took out, the second does not find.
        true => Withdrawn::Removed,
        false => Withdrawn::Absent,
    };
    for row in &answer.rows {
        match column(row, 0).as_deref() {
            Some("epoch") => footing = read_footing(row, 1),
            _ => found = Withdrawn::Removed,
        }
    }
    Ok((found, footing))
}

impl MysqlEngine {
    fn leave_text(&self, claim: &ClaimRef, callback: &str) -> String {
        format!(
            include_str!("sql/leave.sql"),
            claim = self.tables.claim,
            name = name_literal(claim.name.as_str()),
            ticket = ticket_literal(claim.id),
            callback = callback,
        )
    }
}
