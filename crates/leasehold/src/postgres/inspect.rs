//! What people see of the locks and of the server. Reads only.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use sqlx_postgres::PgRow;

use super::ears::gets_through;
use super::text::{bits, column, number, quoted};
use super::{CONFIRM, PostgresEngine};
use crate::engine::{
    Claimant, Eviction, Finding, Inspect, LeaseId, Owner, Queue, Severity, TicketId,
};
use crate::error::Result;
use crate::fence::Token;
use crate::name::Name;
use crate::rule;

#[async_trait]
impl Inspect for PostgresEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let doing = || format!("look at {name}");
        let schema = &self.schema;
        let answer = self.pool.ask(&queue_text(self, name), doing).await?;
        let (rows, capacity, holders) = read_queue(&answer.rows);
        let claims = rows.into_iter().enumerate();
        let claims = claims.map(|(at, row)| row.into_claimant(at < holders));
        let query = format!(
            include_str!("sql/evictions.sql"),
            schema = schema,
            name = quoted(name.as_str())
        );
        let broken = self.pool.ask(&query, doing).await?;
        Ok(Queue {
            capacity,
            claims: claims.collect(),
            evictions: broken.rows.iter().filter_map(eviction).collect(),
        })
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let query = format!(
            include_str!("sql/names.sql"),
            schema = &self.schema,
            prefix = quoted(prefix)
        );
        let answer = self.pool.ask(&query, || "list the locks".into()).await?;
        let names = answer.rows.iter().filter_map(|row| column(row, 0));
        let names: BTreeSet<_> = names.filter_map(|name| Name::new(name).ok()).collect();
        Ok(names.into_iter().collect())
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let query = include_str!("sql/examine.sql");
        let answer = self.pool.ask(query, || "examine the server".into()).await?;
        let mut findings = Vec::new();
        if let Some(row) = answer.rows.first() {
            findings.extend(judge(row, &self.pool.label));
        }
        if !self.has_memo {
            findings.push(finding(
                Severity::Warning,
                "no memos, elections or once per period: the table memo is missing, is not ours, \
                 or this role may not use it",
                "let somebody who may run what `leasehold schema` prints, and grant select, \
                 insert, update and delete on the table",
            ));
        }
        findings.push(match gets_through(self).await {
            true => finding(Severity::Fine, "waiting sessions are told at once", ""),
            false => finding(
                Severity::Warning,
                "there is a pooler before the server, or it has no connection left: messages \
                 (LISTEN) do not get through, and those who wait look 20 times a second",
                "name the server itself in the URL",
            ),
        });
        Ok(findings)
    }
}

pub(super) fn judge(row: &PgRow, label: &str) -> Vec<Finding> {
    let text = |number| column(row, number).unwrap_or_default();
    let what = format!("{label}: PostgreSQL {}", text(0));
    let mut findings = vec![finding(Severity::Fine, &what, "")];
    if text(1) == "t" {
        let what = "the server is a standby: it takes no writes";
        findings.push(finding(Severity::Unfit, what, "name the primary"));
    }
    if text(2) == "off" {
        let what = "fsync is off: a crash of the machine may damage everything";
        findings.push(finding(Severity::Unfit, what, "set fsync = on"));
    }
    if text(3) == "off" {
        let what = "synchronous_commit is off: a crash of the server may forget the last grants";
        let remedy = "alter role … set synchronous_commit = on";
        findings.push(finding(Severity::Warning, what, remedy));
    }
    if text(4) != "UTF8" {
        let what = format!("the encoding is {}: not every name can be written", text(4));
        findings.push(finding(Severity::Warning, &what, "use a database in UTF8"));
    }
    if text(5) == "t" {
        let what = "a standby follows asynchronously: a failover may forget the last grants";
        let remedy = "set synchronous_standby_names where that matters";
        findings.push(finding(Severity::Warning, what, remedy));
    }
    if number::<u64>(row, 6).is_some_and(|seconds| seconds > 600) {
        let what = format!(
            "a transaction has been open for {} minutes: dead rows pile up",
            text(6).parse::<u64>().unwrap_or(0) / 60
        );
        let remedy = "find it in pg_stat_activity and end it";
        findings.push(finding(Severity::Warning, &what, remedy));
    }
    findings
}

pub(super) fn finding(severity: Severity, what: &str, remedy: &str) -> Finding {
    Finding {
        severity,
        what: what.into(),
        remedy: remedy.into(),
    }
}

/// Who holds the lock, where an answer is of now.
pub(super) async fn holders(engine: &PostgresEngine, name: &Name) -> Result<Vec<u64>> {
    let doing = || format!("see who holds {name}");
    let queue = queue_text(engine, name);
    let schema = &engine.schema;
    // On a server that nobody has met, leases may look over that are not.
    let statement = format!("select {schema}.prove(), {CONFIRM}; select {schema}.meet(); {queue}");
    let answer = engine.pool.ask(&statement, doing).await?;
    // The first two rows say nothing of the queue.
    let rows = answer.rows.get(2..).unwrap_or_default();
    let (rows, _, holders) = read_queue(rows);
    Ok(rows[..holders].iter().map(|row| row.holder).collect())
}

fn queue_text(engine: &PostgresEngine, name: &Name) -> String {
    format!(
        include_str!("sql/queue.sql"),
        schema = engine.schema,
        name = quoted(name.as_str())
    )
}

/// The claims, the capacity, and how many hold.
fn read_queue(rows: &[PgRow]) -> (Vec<Row>, u32, usize) {
    let rows: Vec<_> = rows.iter().filter_map(Row::read).collect();
    let capacity = rows.first().map_or(0, |row| row.capacity);
    let claims: Vec<_> = rows.iter().map(|row| row.claim).collect();
    let holders = rule::holders(capacity, &claims);
    (rows, capacity, holders)
}

struct Row {
    claim: rule::Claim,
    capacity: u32,
    id: TicketId,
    holder: u64,
    session: Option<LeaseId>,
    owner: Owner,
    age: Duration,
    time_left: Duration,
}

impl Row {
    fn read(row: &PgRow) -> Option<Self> {
        let millis = |at| number::<u64>(row, at).map(Duration::from_millis);
        Some(Self {
            claim: rule::Claim {
                order: number(row, 0)?,
                weight: number(row, 1)?,
            },
            capacity: number(row, 2)?,
            id: TicketId(bits(column(row, 3)?)?),
            holder: number::<i64>(row, 4)?.cast_unsigned(),
            owner: Owner::seen(column(row, 5)?, number(row, 6)?, column(row, 7)?),
            age: millis(8)?,
            time_left: millis(9)?,
            session: column(row, 10).and_then(bits).map(LeaseId),
        })
    }

    fn into_claimant(self, is_holder: bool) -> Claimant {
        Claimant {
            id: self.id,
            owner: self.owner,
            session: self.session,
            is_holder,
            weight: self.claim.weight,
            token: is_holder.then(|| Token::new(self.claim.order)),
            holder: self.holder,
            age: self.age,
            time_left: self.time_left,
        }
    }
}

pub(super) fn eviction(row: &PgRow) -> Option<Eviction> {
    Some(Eviction {
        token: Token::new(number(row, 0)?),
        owner: Owner::seen(column(row, 1)?, number(row, 2)?, column(row, 3)?),
        by: column(row, 4)?.into(),
        reason: column(row, 5)?.into(),
        at: Duration::from_millis(number(row, 6)?),
    })
}
