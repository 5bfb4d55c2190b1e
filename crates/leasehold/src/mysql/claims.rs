//! What happens to claims: mostly one request each.

use std::sync::Arc;

use sqlx_mysql::MySqlRow;

use super::MysqlEngine;
use super::company::{Change, Went};
use super::inbox::{Footing, Mine, OpenLease};
use super::layout::{CLOCK, WRITABLE};
use super::line::guarded;
use super::look::Line;
use super::pool::{Answer, Lane, Trouble};
use super::prepared::Saying;
use super::takeover::take_over;
use super::term::settle;
use super::text::{
    column, lease as lease_literal, name as name_literal, number, quoted, quoted_or_null,
    ticket as ticket_literal,
};
use super::tie::{IS_LOOSE, next_text, wake};
use crate::engine::{ClaimRef, Standing, Ticket, Withdrawn};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Token;
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
    let mut footing = open.footing();
    if footing.ground.is_none() {
        match find_footing(engine, ticket).await? {
            Some(found) => {
                open.learn(found.clone());
                footing = found;
            }
            None => return Ok(Standing::Gone),
        }
    }
    if let Some(token) = take_free(engine, ticket, &mine, footing).await? {
        return Ok(Standing::Held { token });
    }
    let mut may_bury = true;
    // A claim that does not wait reads first, so that it writes nothing in vain.
    let mut may_write = ticket.waits;
    for _ in 0..ROUNDS {
        let line = match may_write {
            true => ask_for(engine, ticket, &mine, &open).await?,
            false => engine.look(&ticket.claim.name, || doing(ticket)).await?,
        };
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
        if !std::mem::replace(&mut may_write, true) {
            continue;
        }
        match find_footing(engine, ticket).await? {
            Some(footing) => open.learn(footing),
            None => return Ok(Standing::Gone),
        }
    }
    let why = "requests are called back faster than they can be made";
    Err(Error::new(ErrorKind::Unavailable, doing(ticket), why).on(&*engine.pool.label))
}

/// Takes the lock if nobody has it or waits for it: one statement, perhaps together
/// with others.
async fn take_free(
    engine: &MysqlEngine,
    ticket: &Ticket,
    mine: &Arc<Mine>,
    footing: Footing,
) -> Result<Option<Token>> {
    let Footing { epoch, ground } = footing;
    // Whoever is granted something in a term has heard of no later one.
    let Some((server, term)) = ground.filter(|(_, term)| engine.is_latest(*term)) else {
        return Ok(None);
    };
    let held = |place| {
        mine.sits(0);
        mine.is_held(place);
        Ok(Some(Token::new(place)))
    };
    let change = || Change::takes(ticket, mine, epoch, &server, term);
    let went = match &engine.company {
        Some(company) => company.go(change).await,
        None => Went::Alone(None),
    };
    engine.hear_of_breaks();
    let _way = match went {
        Went::Alone(way) => way,
        Went::Done(place) => return held(place),
        // Who asks for a place finds out more.
        Went::NotDone => return Ok(None),
        // By its ticket it is found, if it is there.
        Went::InDoubt => return Ok(None),
        Went::Silent => return Err(engine.pool.trouble(Trouble::Silent, doing(ticket))),
    };
    let take = engine.forms.take(ticket, epoch, &server, term);
    mine.asked(epoch);
    let saying = Saying::Prepared(&take);
    let asking = engine.pool.ask_once(Lane::Common, saying, || doing(ticket));
    let answer = asking.await;
    engine.hear_of_breaks();
    if is_sure(&answer) {
        mine.answered(epoch);
    }
    // A row that stays locked has a queue behind it.
    let place = match answer? {
        Some(answer) if answer.matched > 0 => answer.drawn,
        _ => return Ok(None),
    };
    held(place)
}

/// Whether nothing of the request can still come.
fn is_sure(answer: &Result<Option<Answer>>) -> bool {
    match answer {
        Ok(Some(answer)) => !answer.is_repeated,
        Ok(None) => true,
        Err(error) => error.effect() == Effect::None,
    }
}

async fn ask_for(
    engine: &MysqlEngine,
    ticket: &Ticket,
    mine: &Mine,
    open: &OpenLease,
) -> Result<Line> {
    let (name, epoch) = (ticket.claim.name.as_str(), open.epoch());
    let text = format!(
        include_str!("sql/enqueue.sql"),
        alone = engine.alone_text(name),
        current = engine.granting_text(),
        is_loose = IS_LOOSE,
        claim = engine.tables.claim,
        meta = engine.tables.meta,
        session = engine.tables.session,
        name = name_literal(name),
        ticket = ticket_literal(ticket.claim.id),
        lease = lease_literal(ticket.lease),
        epoch = epoch,
        holder = ticket.holder,
        capacity = ticket.capacity,
        weight = ticket.weight,
        waits = ticket.waits,
        label = quoted_or_null(ticket.label.as_deref()),
        look = engine.look_text(name),
    );
    let doing = || doing(ticket);
    mine.asked(epoch);
    let answer = engine.ask(&guarded(&text), doing).await.map(Some);
    if is_sure(&answer) {
        mine.answered(epoch);
    }
    let rows = answer?.map(|answer| answer.rows).unwrap_or_default();
    Line::read(&rows, doing, &engine.pool.label)
}

/// What requests of the session rely on, if it lives. What else could be why nothing was
/// put, a server whose term it is not, or a term that is new to us, is put right.
async fn find_footing(engine: &MysqlEngine, ticket: &Ticket) -> Result<Option<Footing>> {
    let text = format!(
        "select s.epoch, {}, {}, m.term from {} s join {} m \
         where s.id = {} and s.expires > utc_timestamp(6) and not {IS_LOOSE}",
        engine.granting_text(),
        engine.kind.identity(),
        engine.tables.session,
        engine.tables.meta,
        lease_literal(ticket.lease),
    );
    let answer = engine.ask_plainly(&text, || doing(ticket)).await?;
    let Some(row) = answer.rows.first() else {
        return Ok(None);
    };
    let footing = read_footing(row, 0);
    if footing.as_ref().is_some_and(|found| found.ground.is_none()) {
        settle(engine, Lane::Common, || doing(ticket)).await?;
    }
    Ok(footing)
}

/// An epoch, whether it is this server's term, which server it is, and the term.
fn read_footing(row: &MySqlRow, first: usize) -> Option<Footing> {
    let is_ours = column(row, first + 1).as_deref() == Some("1");
    let ground = column(row, first + 2).zip(number(row, first + 3));
    Some(Footing {
        epoch: number(row, first)?,
        ground: ground.filter(|_| is_ours),
    })
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
    /// The statement that takes the lock's first seat, making it if it is not there,
    /// and draws an order. Who has that row is alone with the queue.
    pub(super) fn alone_text(&self, name: &str) -> String {
        format!(
            include_str!("sql/alone.sql"),
            claim = self.tables.claim,
            meta = self.tables.meta,
            name = name_literal(name),
            clock = CLOCK,
            writable = WRITABLE,
        )
    }

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

fn doing(ticket: &Ticket) -> String {
    format!("lock {}", ticket.claim.name)
}
