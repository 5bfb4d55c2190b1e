//! Several locks in one step: two requests in one transaction.

use super::MysqlEngine;
use super::inbox::OpenLease;
use super::look::Line;
use super::pool::{Lane, READ_COMMITTED};
use super::text::{
    lease as lease_literal, list, name as name_literal, number, quoted_or_null,
    ticket as ticket_literal,
};
use super::tie::IS_LOOSE;
use crate::engine::{Ticket, Together};
use crate::error::{Effect, Error, Result};
use crate::fence::Token;

/// How many locks are taken in one step at most.
const TOGETHER: usize = 64;
/// How often it is begun anew because others were in the way.
const ATTEMPTS: u32 = 5;

/// What came of one attempt.
enum Came {
    Held(Vec<Token>),
    Busy,
    /// One at a time finds out why.
    Otherwise,
}

/// All of them, or none.
pub(super) async fn enqueue_all(engine: &MysqlEngine, tickets: &[Ticket]) -> Result<Together> {
    let Some(first) = tickets.first() else {
        return Ok(Together::Held(Vec::new()));
    };
    let is_of_one = tickets.iter().all(|ticket| ticket.lease == first.lease);
    let open = engine.inbox.lease(first.lease);
    let Some(open) = open.filter(|_| is_of_one && tickets.len() <= TOGETHER) else {
        return Ok(Together::Separately);
    };
    let mut attempt = 0;
    loop {
        attempt += 1;
        match try_once(engine, tickets, &open).await {
            Ok(Came::Held(tokens)) => return Ok(Together::Held(tokens)),
            Ok(Came::Busy) => return Ok(Together::Busy),
            Ok(Came::Otherwise) => return Ok(Together::Separately),
            Err(error) if error.effect() == Effect::None && attempt < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

async fn try_once(engine: &MysqlEngine, tickets: &[Ticket], open: &OpenLease) -> Result<Came> {
    let doing = || format!("lock {}", tickets[0].claim.name);
    let tables = &engine.tables;
    // Everybody who takes several takes them in this order.
    let mut names: Vec<_> = tickets.iter().map(|t| t.claim.name.as_str()).collect();
    names.sort_unstable();
    let mut begin = format!("{READ_COMMITTED}; set @leasehold_alone = 0; ");
    for name in &names {
        // On a server that is read only this takes nothing.
        begin.push_str(&engine.alone_text(name));
        begin.push_str("set @leasehold_alone = @leasehold_alone + (row_count() > 0); ");
    }
    let count = names.len();
    let names = list(names.iter().map(|name| name_literal(name)));
    let lease = lease_literal(open.lease.id);
    let taken = format!(
        "select name from {} where name in {names} and ticket is not null limit 1",
        tables.claim
    );
    let mut talk = engine.pool.talk(Lane::Common, doing).await?;
    // Whoever comes too late finds that out without a write.
    let is_taken = !talk.say(&taken, doing).await?.is_empty();
    if !is_taken {
        talk.say(&begin, doing).await?;
    }
    // An order that was drawn before the term began is not granted in it.
    let look = format!(
        "select s.epoch from {} s join {} m where s.id = {lease} \
         and s.expires > utc_timestamp(6) and not {IS_LOOSE} and {} \
         and m.term <= (select min(c.term) from {} c where c.name in {names} and c.seat = 0) \
         and @leasehold_alone = {count}",
        tables.session,
        tables.meta,
        engine.granting_text(),
        tables.claim,
    );
    let rows = talk.say(&look, doing).await?;
    let epoch: Option<u64> = rows.first().and_then(|row| number(row, 0));
    let is_taken = is_taken || !talk.say(&taken, doing).await?.is_empty();
    if epoch != Some(open.epoch()) || is_taken {
        let mut is_busy = is_taken;
        for ticket in tickets {
            let rows = talk
                .say(&engine.look_text(ticket.claim.name.as_str()), doing)
                .await?;
            let line = Line::read(&rows, doing, &engine.pool.label)?;
            // What may be ours from before, is dead, or has room: one at a time.
            is_busy &= !line.has_dead() && line.place_of(ticket.claim.id).is_none();
            is_busy &= line.other_capacity(ticket.capacity).is_none();
        }
        talk.say("rollback", doing).await?;
        talk.end().await;
        return Ok(match is_busy {
            true => Came::Busy,
            false => Came::Otherwise,
        });
    }
    put(engine, tickets, open.epoch(), talk).await
}

/// All queues are empty and ours alone.
async fn put(
    engine: &MysqlEngine,
    tickets: &[Ticket],
    epoch: u64,
    mut talk: super::line::Talk<'_>,
) -> Result<Came> {
    let doing = || format!("lock {}", tickets[0].claim.name);
    let tables = &engine.tables;
    let claims: Vec<_> = tickets.iter().map(|t| engine.inbox.admit(t)).collect();
    let mut text = String::new();
    for ticket in tickets {
        let name = ticket.claim.name.as_str();
        text.push_str(&format!(
            include_str!("sql/put.sql"),
            claim = tables.claim,
            name = name_literal(name),
            ticket = ticket_literal(ticket.claim.id),
            lease = lease_literal(ticket.lease),
            holder = ticket.holder,
            capacity = ticket.capacity,
            weight = ticket.weight,
            label = quoted_or_null(ticket.label.as_deref()),
        ));
    }
    text.push_str("commit");
    claims.iter().for_each(|mine| mine.asked(epoch));
    let rows = talk.say(&text, doing).await;
    let is_sure = match &rows {
        Ok(_) => true,
        Err(error) => error.effect() == Effect::None,
    };
    if is_sure {
        claims.iter().for_each(|mine| mine.answered(epoch));
    }
    let rows = rows?;
    talk.end().await;
    let places: Vec<u64> = rows.iter().filter_map(|row| number(row, 0)).collect();
    if places.len() != claims.len() {
        let error: Error = super::strange(doing(), &engine.pool.label);
        return Err(error);
    }
    for (mine, place) in claims.iter().zip(&places) {
        mine.is_held(*place);
    }
    Ok(Came::Held(places.into_iter().map(Token::new).collect()))
}
