//! Taking, waiting and giving back.

use std::sync::Arc;
use std::time::Duration;

use sqlx_postgres::PgRow;
use tokio::time::timeout;

use super::super::fault::fault;
use super::super::text::{column, number, quoted};
use super::ending::finish;
use super::line::Line;
use super::open::{Mine, OpenLease, Place, Side};
use super::{AdvisoryEngine, LIMIT};
use crate::engine::{ClaimRef, Standing, Ticket, Watch, Withdrawn};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;

/// How long a wait may take before it is called one.
const GRACE: Duration = Duration::from_millis(5);
/// Between two looks whether a request has arrived.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the news may take that a side connection has the lock.
const NEWS: Duration = Duration::from_secs(2);
/// How often a wait is looked after, in case its connection is dead and nobody
/// says so.
const LOOK: Duration = Duration::from_secs(1);
/// How often somebody tries who is in nobody's line.
const LOOK_OUTSIDE: Duration = Duration::from_millis(50);

/// Takes the lock, or a place in the server's line.
pub(super) async fn enqueue(engine: &AdvisoryEngine, ticket: &Ticket) -> Result<Standing> {
    if ticket.capacity != 1 {
        let why = "mode=session has no readers, writers or permits; mode=lease has";
        return Err(engine.refusal(ErrorKind::Unsupported, doing(&ticket.claim.name), why));
    }
    let Some(open) = engine.lease(ticket.lease) else {
        return Ok(Standing::Gone);
    };
    let mine = open.admit(ticket);
    match mine.place() {
        Place::OnMain { token } | Place::OnSide { token, .. } => return Ok(held(token)),
        Place::Leaving(_) => return Ok(Standing::Gone),
        Place::Waiting(side) | Place::Granted { side, .. } => {
            return stand(engine, &open, &mine, &side).await;
        }
        Place::Refused | Place::Outside => return Ok(waiting(1)),
        Place::New | Place::Asked => {}
    }
    let name = &ticket.claim.name;
    let is_asked = matches!(mine.place(), Place::Asked);
    if ticket.waits && !is_asked && open.is_hot(name) && open.has_idle() {
        return line_up(engine, &open, &mine, false).await;
    }
    let can_ask = open.enter_main(&ticket.claim);
    if can_ask && let Some(token) = take(engine, &open, &mine).await? {
        return Ok(held(token));
    }
    if !ticket.waits {
        open.forget(&ticket.claim);
        return Ok(Standing::Busy);
    }
    if can_ask && !open.has_idle() {
        // The answer does not wait for a new connection.
        mine.is_at(Place::Refused);
        return Ok(waiting(1));
    }
    line_up(engine, &open, &mine, !can_ask).await
}

/// Tries on the main connection, which must have been entered.
async fn take(engine: &AdvisoryEngine, open: &OpenLease, mine: &Mine) -> Result<Option<u64>> {
    let name = &mine.claim.name;
    if let Place::Asked = mine.place() {
        // It may have been granted without our knowing, and would be again.
        ask(engine, &open.main, unlock(&open.main, name), name).await?;
    }
    mine.is_at(Place::Asked);
    let (schema, name_text) = (&engine.schema, quoted(name.as_str()));
    let text = format!("select {schema}.take({name_text}, {})", open.main.pid);
    let rows = ask(engine, &open.main, text, name).await?;
    let token = rows.first().and_then(|row| number(row, 0));
    match token {
        Some(token) => mine.is_at(Place::OnMain { token }),
        None => {
            mine.is_at(Place::New);
            open.leave_main(&mine.claim);
        }
    }
    Ok(token)
}

/// Waits on a side connection, if there is one. `is_sure`: and says so only when
/// the server has it in its line.
async fn line_up(
    engine: &AdvisoryEngine,
    open: &OpenLease,
    mine: &Mine,
    is_sure: bool,
) -> Result<Standing> {
    let Some((room, idle)) = open.aside() else {
        mine.is_at(Place::Outside);
        return Ok(waiting(1));
    };
    let line = match idle {
        Some(line) => line,
        None => {
            // Making one may take longer than anybody listens; then the next
            // look is a try.
            mine.is_at(Place::Outside);
            let enlisting = engine.enlist(open.lease, &open.owner, Some(&open.watcher));
            match enlisting.await {
                Ok((line, _)) => {
                    let line = Arc::new(line);
                    open.add_aside(&line);
                    line
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection to wait on; looking now and then");
                    return Ok(waiting(1));
                }
            }
        }
    };
    let side = OpenLease::side(line.clone(), room);
    let text = format!(
        "select {}.wait_for({}, {}, {})",
        engine.schema,
        quoted(mine.claim.name.as_str()),
        line.pid,
        open.main.key,
    );
    mine.is_at(Place::Waiting(side.clone()));
    *mine.waiting.lock().await = Some(Box::pin(async move { line.run(text).await }));
    match timeout(GRACE, hear(engine, open, mine, &side)).await {
        Ok(standing) => standing,
        Err(_) if is_sure => stand(engine, open, mine, &side).await,
        Err(_) => Ok(waiting(1)),
    }
}

/// Where a claim stands that has a side connection, as the server sees it.
async fn stand(
    engine: &AdvisoryEngine,
    open: &OpenLease,
    mine: &Mine,
    side: &Arc<Side>,
) -> Result<Standing> {
    let name = &mine.claim.name;
    let looking = async {
        loop {
            // Not from what its process says that it waits for: that is told late.
            let text = format!(
                "select coalesce(max(case when l.granted then 'idle' else 'waits' end), 'none'), \
                 max(case when not l.granted then 'Lockadvisory' end) from pg_locks l \
                 where l.pid = {} and l.locktype = 'advisory' and l.objsubid = 1 \
                 and (l.classid::bigint << 32) | l.objid::bigint \
                 = (select hashtextextended({} collate \"C\", {}))",
                side.line.pid,
                quoted(name.as_str()),
                side.line.seed
            );
            let rows = ask(engine, &open.main, text, name).await?;
            let read = |at| rows.first().and_then(|row| column(row, at));
            match (read(0), read(1)) {
                (_, Some("Lockadvisory")) => return Ok(waiting(1)),
                // The answer is on its way.
                (Some("idle") | None, _) => std::future::pending().await,
                // The request is, or is being carried out.
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    let both = async {
        tokio::select! {
            biased;
            standing = hear(engine, open, mine, side) => standing,
            standing = looking => standing,
        }
    };
    match timeout(NEWS, both).await {
        Ok(standing) => standing,
        // It has the lock, or lost its place, and we do not hear of it.
        Err(_) => {
            finish(engine, open, std::slice::from_ref(&side.line)).await?;
            open.forget(&mine.claim);
            Ok(Standing::Gone)
        }
    }
}

/// Waits for the answer of a side connection.
///
/// # Cancel safety
/// The request goes on, and its answer is kept.
async fn hear(
    engine: &AdvisoryEngine,
    open: &OpenLease,
    mine: &Mine,
    side: &Arc<Side>,
) -> Result<Standing> {
    let mut waiting = mine.waiting.lock().await;
    if let Some(request) = waiting.as_mut() {
        let answer = request.await;
        *waiting = None;
        let token = match answer {
            Ok(rows) => rows.first().and_then(|row| number::<i64>(row, 0)),
            Err(error) => {
                tracing::debug!(%error, "a wait was ended");
                None
            }
        };
        let Some(token) = token else {
            // Without a token nobody knows whether it holds anything.
            return Ok(give_up(engine, open, mine, side).await);
        };
        open.learn_heat(&mine.claim.name, token < 0);
        open.is_granted(mine, side, token.unsigned_abs(), None);
    }
    // One that is granted is held once its connection has shown, after the last
    // renewal, that it lives.
    while let Place::Granted { token, .. } = mine.place() {
        let asked = open.asked();
        if let Err(error) = ask(engine, &side.line, "select 1".into(), &mine.claim.name).await {
            if side.line.is_broken() {
                return Ok(give_up(engine, open, mine, side).await);
            }
            return Err(error);
        }
        open.is_granted(mine, side, token, Some(asked));
    }
    Ok(mine.token().map_or(Standing::Gone, held))
}

/// Ends a side connection, and with it what it has.
async fn give_up(
    engine: &AdvisoryEngine,
    open: &OpenLease,
    mine: &Mine,
    side: &Arc<Side>,
) -> Standing {
    let _ = finish(engine, open, std::slice::from_ref(&side.line)).await;
    open.forget(&mine.claim);
    Standing::Gone
}

/// Waits until the claim's standing may have changed.
pub(super) async fn wait(engine: &AdvisoryEngine, ticket: &Ticket) -> Result<Standing> {
    let Some(open) = engine.lease(ticket.lease) else {
        return Ok(Standing::Gone);
    };
    let Some(mine) = open.claim(ticket.claim.id) else {
        return Ok(Standing::Gone);
    };
    match mine.place() {
        Place::OnMain { token } | Place::OnSide { token, .. } => Ok(held(token)),
        Place::New | Place::Leaving(_) => Ok(Standing::Gone),
        Place::Asked => Ok(Standing::MayBeFree),
        Place::Waiting(side) | Place::Granted { side, .. } => {
            match timeout(LOOK, hear(engine, &open, &mine, &side)).await {
                Ok(standing) => standing,
                Err(_) => stand(engine, &open, &mine, &side).await,
            }
        }
        Place::Refused => line_up(engine, &open, &mine, false).await,
        Place::Outside => {
            tokio::time::sleep(LOOK_OUTSIDE).await;
            if open.enter_main(&mine.claim)
                && let Some(token) = take(engine, &open, &mine).await?
            {
                return Ok(held(token));
            }
            line_up(engine, &open, &mine, false).await
        }
    }
}

/// Gives a claim of ours back, or its place in the line.
pub(super) async fn withdraw(engine: &AdvisoryEngine, claim: &ClaimRef) -> Result<Withdrawn> {
    let found = engine.open_leases().into_iter().find_map(|open| {
        let mine = open.claim(claim.id)?;
        Some((open, mine))
    });
    let Some((open, mine)) = found else {
        return Ok(Withdrawn::Absent);
    };
    let is_removed = match mine.leaves() {
        Place::New | Place::Refused | Place::Outside => false,
        Place::Asked | Place::OnMain { .. } | Place::Leaving(None) => {
            give_back(engine, &open, &open.main, &claim.name).await?
        }
        Place::Granted { side, .. } | Place::OnSide { side, .. } => {
            let is_removed = give_back(engine, &open, &side.line, &claim.name).await?;
            open.keep(side.line.clone());
            is_removed
        }
        Place::Waiting(side) | Place::Leaving(Some(side)) => {
            mine.waiting.lock().await.take();
            finish(engine, &open, std::slice::from_ref(&side.line)).await?;
            true
        }
    };
    open.forget(claim);
    Ok(match is_removed {
        true => Withdrawn::Removed,
        false => Withdrawn::Absent,
    })
}

async fn give_back(
    engine: &AdvisoryEngine,
    open: &OpenLease,
    line: &Arc<Line>,
    name: &Name,
) -> Result<bool> {
    match line.run(unlock(line, name)).await {
        Ok(rows) => Ok(rows.first().is_some_and(|row| column(row, 0) == Some("t"))),
        // What the connection held goes with it, once the server knows.
        Err(_) if line.is_broken() => {
            finish(engine, open, std::slice::from_ref(line)).await?;
            Ok(true)
        }
        Err(error) => Err(fault(error, doing(name), &engine.pool.label)),
    }
}

/// Without a call of our function `key`, which the server would read each time.
fn unlock(line: &Line, name: &Name) -> String {
    let (name, seed) = (quoted(name.as_str()), line.seed);
    format!("select pg_advisory_unlock(hashtextextended({name} collate \"C\", {seed}))")
}

async fn ask(
    engine: &AdvisoryEngine,
    line: &Line,
    text: String,
    name: &Name,
) -> Result<Vec<PgRow>> {
    let failed = |error| fault(error, doing(name), &engine.pool.label);
    match timeout(LIMIT, line.run(text)).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => {
            let why = "the server does not answer";
            let error = Error::new(ErrorKind::Unavailable, doing(name), why);
            Err(error.on(&*engine.pool.label).effect_is(Effect::Unknown))
        }
    }
}

fn held(token: u64) -> Standing {
    let token = Token::new(token);
    Standing::Held { token }
}

fn waiting(ahead: u32) -> Standing {
    let watch = Watch::Any;
    Standing::Waiting { watch, ahead }
}

fn doing(name: &Name) -> String {
    format!("lock {name}")
}
