//! What puts a claim: mostly one request.

use std::sync::Arc;

use sqlx_mysql::MySqlRow;

use super::MysqlEngine;
use super::company::{Change, Went};
use super::inbox::{Footing, Mine, OpenLease};
use super::layout::{CLOCK, WRITABLE};
use super::leaving::leave;
use super::line::guarded;
use super::look::Line;
use super::pool::{Answer, Lane, Trouble};
use super::prepared::Saying;
use super::takeover::take_over;
use super::term::settle;
use super::text::{
    column, lease as lease_literal, name as name_literal, number, quoted_or_null,
    ticket as ticket_literal,
};
use super::tie::IS_LOOSE;
use crate::engine::{Standing, Ticket};
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
pub(super) fn read_footing(row: &MySqlRow, first: usize) -> Option<Footing> {
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
}

fn doing(ticket: &Ticket) -> String {
    format!("lock {}", ticket.claim.name)
}
