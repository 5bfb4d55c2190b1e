//! What people see of these locks, and breaking them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use sqlx_postgres::PgRow;

use super::super::inspect::{eviction, finding, judge};
use super::super::renewal::whole_millis;
use super::super::text::{bits, column, number, quoted, quoted_or_null, ticket, uuid};
use super::AdvisoryEngine;
use super::ending::is_finished;
use super::open::{Inquiry, Mine, OpenLease, Place};
use crate::clock::boot_time;
use crate::engine::{
    ClaimRef, Claimant, Finding, Inspect, LeaseId, Owner, Queue, Severity, TicketId, Withdrawn,
};
use crate::error::Result;
use crate::fence::Token;
use crate::name::Name;
use crate::random::random_u128;

/// How long sessions have to say what they hold.
const ANSWERS: Duration = Duration::from_secs(2);
/// How long a holder has to give back what was broken.
const OBEYS: Duration = Duration::from_secs(1);
/// How long a session waits for the table in which it says what it holds.
const LOCKED: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// Writes down what people asked for, for ever. A table that somebody locked must
/// not hold up the main connection.
///
/// # Cancel safety
/// What was not written is kept for the next time.
pub(super) async fn answer(engine: &AdvisoryEngine, open: &OpenLease) {
    loop {
        // Looked at again after each message, by the same task.
        let inquiry = std::future::poll_fn(|_| match super::lock(&open.inquiries).first() {
            Some(inquiry) => Poll::Ready(inquiry.clone()),
            None => Poll::Pending,
        });
        let inquiry = inquiry.await;
        let rows: Vec<_> = open
            .claims()
            .iter()
            .filter_map(|mine| note(engine, open, mine, &inquiry))
            .collect();
        if !rows.is_empty() {
            let patience = (open.lease.ttl / 12).min(LOCKED);
            let text = format!(
                "set local lock_timeout = {}; \
                 insert into {}.note (request, pid, key, name, ticket, holder, token, label, since) \
                 values {} on conflict do nothing",
                whole_millis(patience),
                engine.schema,
                rows.join(", ")
            );
            // Whoever asked does without it.
            if let Err(error) = open.main.run(text).await {
                tracing::warn!(%error, "could not say what is held");
            }
        }
        super::lock(&open.inquiries).retain(|other| other.request != inquiry.request);
    }
}

fn note(
    engine: &AdvisoryEngine,
    open: &OpenLease,
    mine: &Arc<Mine>,
    inquiry: &Inquiry,
) -> Option<String> {
    let name = mine.claim.name.as_str();
    if inquiry.name.as_deref().is_some_and(|asked| asked != name) {
        return None;
    }
    let pid = match mine.place() {
        Place::New | Place::Refused | Place::Outside => return None,
        Place::Asked | Place::OnMain { .. } | Place::Leaving(None) => open.main.pid,
        Place::Waiting(side)
        | Place::Granted { side, .. }
        | Place::OnSide { side, .. }
        | Place::Leaving(Some(side)) => side.line.pid,
    };
    let name = quoted(name);
    Some(format!(
        "({}, {pid}, {}.key({name}), {name}, {}, {}, {}, {}, \
         clock_timestamp() - {} * interval '1 millisecond')",
        quoted(&inquiry.request),
        engine.schema,
        ticket(mine.claim.id),
        mine.holder.cast_signed(),
        mine.token()
            .map_or("null".into(), |token| token.to_string()),
        quoted_or_null(mine.label.as_deref()),
        boot_time().since(mine.since).as_millis(),
    ))
}

/// One who has or wants a lock.
struct Row {
    pid: i32,
    line: i64,
    /// The session's, as text.
    session: String,
    is_noted: bool,
    claimant: Claimant,
}

impl Row {
    fn read(row: &PgRow) -> Option<Self> {
        let millis = |at| number::<u64>(row, at).map(Duration::from_millis);
        let line: i64 = number(row, 1)?;
        let noted = column(row, 3).and_then(bits);
        // A session that does not answer is known by its connection.
        let id = noted.unwrap_or(u128::from(line.cast_unsigned()));
        let is_holder = column(row, 2) == Some("t");
        Some(Self {
            pid: number(row, 0)?,
            line,
            session: column(row, 9)?.to_owned(),
            is_noted: noted.is_some(),
            claimant: Claimant {
                id: TicketId(id),
                owner: Owner::seen(column(row, 6)?, number(row, 7)?, column(row, 8)?),
                session: column(row, 9).and_then(bits).map(LeaseId),
                is_holder,
                weight: 1,
                token: number(row, 5).filter(|_| is_holder).map(Token::new),
                holder: number::<i64>(row, 4).unwrap_or(0).cast_unsigned(),
                age: millis(10)?,
                time_left: millis(11)?,
            },
        })
    }
}

/// Those who have or want a lock, in order, as far as they tell, and the request
/// under which they told it, which is to be forgotten.
async fn rows(engine: &AdvisoryEngine, name: &Name) -> Result<(String, Vec<Row>)> {
    let doing = || format!("look at {name}");
    let request = uuid(random_u128());
    let (schema, text) = (&engine.schema, quoted(name.as_str()));
    let asking = format!("select {schema}.inquire({request}, {text})");
    engine.pool.ask(&asking, doing).await?;
    let query = format!(
        include_str!("../sql/advisory_queue.sql"),
        schema = schema,
        name = text,
        request = request
    );
    let started = boot_time();
    let found = loop {
        tokio::time::sleep(PAUSE).await;
        let answer = engine.pool.ask(&query, doing).await?;
        let rows: Vec<_> = answer.rows.iter().filter_map(Row::read).collect();
        let is_over = boot_time().since(started) >= ANSWERS;
        if is_over || rows.iter().all(|row| row.is_noted) {
            break rows;
        }
    };
    Ok((request, found))
}

/// The statement that forgets a request.
fn forgetting(engine: &AdvisoryEngine, request: &str) -> String {
    let schema = &engine.schema;
    format!("delete from {schema}.note where request = {request}; ")
}

#[async_trait]
impl Inspect for AdvisoryEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let (request, rows) = rows(self, name).await?;
        let query = format!(
            include_str!("../sql/evictions.sql"),
            schema = &self.schema,
            name = quoted(name.as_str())
        );
        let query = forgetting(self, &request) + &query;
        let broken = self.pool.ask(&query, || format!("look at {name}")).await?;
        Ok(Queue {
            capacity: u32::from(!rows.is_empty()),
            claims: rows.into_iter().map(|row| row.claimant).collect(),
            evictions: broken.rows.iter().filter_map(eviction).collect(),
        })
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let doing = || "list the locks".to_owned();
        let (schema, request) = (&self.schema, uuid(random_u128()));
        let asking = format!("select {schema}.inquire({request}, null)");
        self.pool.ask(&asking, doing).await?;
        let query = format!(
            "select distinct n.name from {schema}.standing(null) s left join {schema}.note n \
             on n.request = {request} and n.pid = s.pid and n.key = s.key"
        );
        let started = boot_time();
        let names = loop {
            let answer = self.pool.ask(&query, doing).await?;
            let names: Vec<_> = answer.rows.iter().map(|row| column(row, 0)).collect();
            let is_over = boot_time().since(started) >= ANSWERS;
            if is_over || names.iter().all(Option::is_some) {
                let names = names.into_iter().flatten();
                let names = names.filter(|name| name.starts_with(prefix));
                let names: BTreeSet<_> = names.filter_map(|name| Name::new(name).ok()).collect();
                break names;
            }
            tokio::time::sleep(PAUSE).await;
        };
        self.pool.ask(&forgetting(self, &request), doing).await?;
        Ok(names.into_iter().collect())
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let query = include_str!("../sql/examine.sql");
        let answer = self.pool.ask(query, || "examine the server".into()).await?;
        let row = answer.rows.first();
        let mut findings = row.map_or_else(Vec::new, |row| judge(row, &self.pool.label));
        findings.push(match self.reaches_the_server().await {
            true => finding(
                Severity::Fine,
                "locks belong to connections, which the server ends when they are silent",
                "",
            ),
            false => finding(
                Severity::Unfit,
                "there is a pooler before the server, or it has no connection left: no lock \
                 can belong to a connection",
                "name the server itself in the URL, or leave mode=session out",
            ),
        });
        Ok(findings)
    }
}

/// Breaks a claim, whoever's it is.
pub(super) async fn evict(
    engine: &AdvisoryEngine,
    claim: &ClaimRef,
    by: &str,
    reason: &str,
) -> Result<Withdrawn> {
    let doing = || format!("break {}", claim.name);
    let (request, rows) = rows(engine, &claim.name).await?;
    let Some(row) = rows.into_iter().find(|row| row.claimant.id == claim.id) else {
        return Ok(Withdrawn::Absent);
    };
    let (schema, name) = (&engine.schema, quoted(claim.name.as_str()));
    let (owner, token) = (&row.claimant.owner, row.claimant.token);
    let text = forgetting(engine, &request);
    let text = format!(
        "{text}insert into {schema}.eviction (ticket, name, token, host, pid, label, by, reason, at) \
         values ({}, {name}, {}, {}, {}, {}, {}, {}, clock_timestamp()) on conflict do nothing; \
         select {schema}.tell({}, 'renew')",
        ticket(claim.id),
        token.map_or(0, Token::get),
        quoted(owner.host()),
        owner.pid(),
        quoted(owner.label()),
        quoted(by),
        quoted(reason),
        quoted(&row.session),
    );
    engine.pool.ask(&text, doing).await?;
    let query = format!(
        "select from {schema}.standing({name}) s \
         where s.pid = {} and s.line = {} and s.is_held",
        row.pid, row.line
    );
    let is_told = row.is_noted && row.claimant.is_holder;
    let started = boot_time();
    while is_told && boot_time().since(started) < OBEYS {
        if engine.pool.ask(&query, doing).await?.rows.is_empty() {
            return Ok(Withdrawn::Removed);
        }
        tokio::time::sleep(PAUSE).await;
    }
    // It may have given it back, and its connection have or want the name again,
    // for another claim. One that does not answer has not given anything back.
    let is_another = |now: &Row| now.is_noted && now.claimant.id != claim.id;
    let is_on_line = |now: &Row| (now.pid, now.line) == (row.pid, row.line);
    if row.is_noted {
        let (request, now) = self::rows(engine, &claim.name).await?;
        engine
            .pool
            .ask(&forgetting(engine, &request), doing)
            .await?;
        if now
            .iter()
            .find(|now| is_on_line(now))
            .is_none_or(is_another)
        {
            return Ok(Withdrawn::Removed);
        }
    }
    let text = format!(
        "select {schema}.finish(array[{}]::integer[], array[{}]::bigint[])",
        row.pid, row.line
    );
    let ended = engine.pool.ask(&text, doing).await?;
    is_finished(engine, &ended.rows, doing())?;
    Ok(Withdrawn::Removed)
}
