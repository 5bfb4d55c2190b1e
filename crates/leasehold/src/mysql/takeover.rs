//! Taking over from those whose lease has ended. Several requests in one
//! transaction: it happens once for each holder that died.

use std::collections::BTreeSet;

use super::MysqlEngine;
use super::line::Talk;
use super::look::Line;
use super::pool::Lane;
use super::text::{column, lease as lease_literal, list, name as name_literal, number};
use super::tie::IS_LOOSE;
use crate::engine::LeaseId;
use crate::error::{Effect, Result};
use crate::name::Name;

/// A session that has ended for good. No renewal brings it back.
pub(super) const ENDED: &str = "'1000-01-01'";

/// How often it is begun anew because others were in the way.
const ATTEMPTS: u32 = 5;

/// Takes the dead out of a queue. One whose row is locked, maybe by its renewal,
/// counts as alive for now; a claim that a transaction is fenced by stays.
pub(super) async fn take_over(engine: &MysqlEngine, name: &Name) -> Result<()> {
    let doing = || format!("take over {name}");
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut talk = engine.pool.talk(Lane::Common, doing).await?;
        match bury(engine, &mut talk, name).await {
            Ok(()) => {
                talk.end().await;
                return Ok(());
            }
            // A deadlock or a lock that took too long: undone.
            Err(error) if error.effect() == Effect::None && attempt < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

async fn bury(engine: &MysqlEngine, talk: &mut Talk<'_>, name: &Name) -> Result<()> {
    let doing = || format!("take over {name}");
    let tables = &engine.tables;
    let rows = talk.say(&engine.term_text(), doing).await?;
    if let Some(begin) = engine.beginning_text(&rows, doing)? {
        let rows = talk.say(&begin, doing).await?;
        engine.hears_term(&rows);
        return Ok(());
    }
    let begin = format!(
        "set transaction isolation level read committed; start transaction read write; \
         select seat into @leasehold_seat from {} where name = {} and seat = 0 for update; {}",
        tables.claim,
        name_literal(name.as_str()),
        engine.look_text(name.as_str()),
    );
    let rows = talk.say(&begin, doing).await?;
    let line = Line::read(&rows, doing, &engine.pool.label)?;
    let dead = line.0.iter().filter(|place| place.left.is_zero());
    let dead: BTreeSet<LeaseId> = dead.map(|place| place.session).collect();
    let dead = list(dead.into_iter().map(lease_literal));
    // In the order of their ids, and without waiting for anybody.
    let over = format!(
        "select hex(s.id) from {} s where s.id in {dead} \
         and (s.expires <= utc_timestamp(6) or {IS_LOOSE}) \
         order by s.id for update skip locked; \
         select concat('-', hex(c.session)) from {} c left join {} s on s.id = c.session \
         where c.name = {} and c.ticket is not null and s.id is null",
        tables.session,
        tables.claim,
        tables.session,
        name_literal(name.as_str()),
    );
    let rows = talk.say(&over, doing).await?;
    let over: BTreeSet<_> = rows.iter().filter_map(|row| column(row, 0)).collect();
    let over = list(
        over.iter()
            .map(|id| format!("x'{}'", id.trim_start_matches('-'))),
    );
    let loose = format!(
        "select seat from {} where name = {} and session in {over} and ticket is not null \
         order by seat for update skip locked",
        tables.claim,
        name_literal(name.as_str()),
    );
    let rows = talk.say(&loose, doing).await?;
    let seats: Vec<u64> = rows.iter().filter_map(|row| number(row, 0)).collect();
    let seats = list(seats.iter().map(u64::to_string));
    let end = format!(
        "update {session} set expires = {ENDED} where id in {over}; \
         update {claim} set ticket = null where name = {name} and seat = 0 and seat in {seats}; \
         delete from {claim} where name = {name} and seat > 0 and seat in {seats}; commit",
        session = tables.session,
        claim = tables.claim,
        name = name_literal(name.as_str()),
    );
    talk.say(&end, doing).await?;
    Ok(())
}
