//! What people see of the locks and of the server. Reads only.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use sqlx_mysql::MySqlRow;

use super::MysqlEngine;
use super::text::{bits, column, hex_text, name as name_literal, number, quoted};
use super::tie::IS_LOOSE;
use crate::engine::{
    Claimant, Eviction, Finding, Inspect, LeaseId, Owner, Queue, Severity, TicketId,
};
use crate::error::{ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;
use crate::rule;

#[async_trait]
impl Inspect for MysqlEngine {
    async fn queue(&self, name: &Name) -> Result<Queue> {
        let doing = || format!("look at {name}");
        let answer = self.ask_plainly(&self.queue_text(name), doing).await?;
        let (rows, capacity, holders) = read_queue(&answer.rows);
        let claims = rows.into_iter().enumerate();
        let claims = claims.map(|(at, row)| row.into_claimant(at < holders));
        let query = format!(
            include_str!("sql/evictions.sql"),
            eviction = self.tables.eviction,
            name = name_literal(name.as_str()),
        );
        let broken = self.ask_plainly(&query, doing).await?;
        Ok(Queue {
            capacity,
            claims: claims.collect(),
            evictions: broken.rows.iter().filter_map(eviction).collect(),
        })
    }

    async fn names(&self, prefix: &str) -> Result<Vec<Name>> {
        let query = format!(
            include_str!("sql/names.sql"),
            is_loose = IS_LOOSE,
            claim = self.tables.claim,
            session = self.tables.session,
            prefix = name_literal(prefix),
            length = prefix.len(),
        );
        let answer = self.ask_plainly(&query, || "list the locks".into()).await?;
        let names = answer.rows.iter().filter_map(|row| hex_text(row, 0));
        let names: BTreeSet<_> = names.filter_map(|name| Name::new(name).ok()).collect();
        Ok(names.into_iter().collect())
    }

    async fn examine(&self) -> Result<Vec<Finding>> {
        let doing = || "examine the server".to_owned();
        let variables = "show global variables where variable_name in ('version', 'read_only', \
             'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', \
             'wsrep_on', 'innodb_doublewrite')";
        let answer = self.ask_plainly(variables, doing).await?;
        let pair = |row: &MySqlRow| Some((column(row, 0)?, column(row, 1)?));
        let settings: HashMap<_, _> = answer.rows.iter().filter_map(pair).collect();
        let mut findings = judge(&settings, &self.pool.label);
        let engines = format!(
            "select table_name, engine from information_schema.tables where table_schema = {} \
             and table_name like {} and engine <> 'InnoDB'",
            quoted(&self.database),
            quoted(&format!("{}\\_%", self.schema)),
        );
        let answer = self.ask_plainly(&engines, doing).await?;
        for (table, engine) in answer.rows.iter().filter_map(pair) {
            let what = format!("{table} is a table of {engine}, which knows no transactions");
            let remedy = "drop our tables and let them be made anew with InnoDB";
            findings.push(finding(Severity::Unfit, &what, remedy));
        }
        if !self.has_memo {
            findings.push(finding(
                Severity::Warning,
                "no memos, elections or once per period: the table for memos is missing, is not \
                 ours, is from before memos could end, or this user may not use it",
                "let somebody who may run what `leasehold schema` prints, and grant select, \
                 insert, update and delete on the table",
            ));
        }
        let delete = format!("delete from {} where name = ''", self.tables.memo);
        if self.has_memo
            && let Err(error) = self.ask_plainly(&delete, doing).await
            && error.kind() == ErrorKind::Denied
        {
            findings.push(finding(
                Severity::Warning,
                "memos that are kept for a time end, but their rows stay for good: this user \
                 may not delete them",
                "grant delete on the table for memos",
            ));
        }
        Ok(findings)
    }
}

fn judge(settings: &HashMap<String, String>, label: &str) -> Vec<Finding> {
    let text = |name: &str| settings.get(name).map_or("", String::as_str);
    let is_on = |name: &str| matches!(text(name), "ON" | "1");
    let what = format!("{label}: {}", text("version"));
    let mut findings = vec![finding(Severity::Fine, &what, "")];
    if is_on("read_only") {
        let what = "the server is read only, maybe a replica";
        findings.push(finding(
            Severity::Unfit,
            what,
            "name the one that takes writes",
        ));
    }
    let flush = text("innodb_flush_log_at_trx_commit");
    if !matches!(flush, "1" | "3") {
        let what = format!(
            "innodb_flush_log_at_trx_commit is {flush}: a crash may forget the last grants"
        );
        let remedy = "set innodb_flush_log_at_trx_commit = 1";
        findings.push(finding(Severity::Warning, &what, remedy));
    }
    if is_on("log_bin") && text("sync_binlog") != "1" {
        let what = "sync_binlog is not 1: a replica may miss what a crash left unwritten";
        findings.push(finding(Severity::Warning, what, "set sync_binlog = 1"));
    }
    if is_on("log_bin") && text("binlog_format") == "STATEMENT" {
        let what = "binlog_format is STATEMENT, with which our transactions are refused";
        findings.push(finding(
            Severity::Unfit,
            what,
            "set binlog_format to ROW or MIXED",
        ));
    }
    if is_on("wsrep_on") {
        let what = "the server is part of a Galera cluster, on which this is not tested: \
                    locks of rows hold on one node only";
        findings.push(finding(
            Severity::Warning,
            what,
            "name one node for all clients",
        ));
    }
    findings
}

fn finding(severity: Severity, what: &str, remedy: &str) -> Finding {
    Finding {
        severity,
        what: what.into(),
        remedy: remedy.into(),
    }
}

impl MysqlEngine {
    /// The statement that reads what `read_queue` understands.
    pub(super) fn queue_text(&self, name: &Name) -> String {
        format!(
            include_str!("sql/queue.sql"),
            is_loose = IS_LOOSE,
            claim = self.tables.claim,
            session = self.tables.session,
            name = name_literal(name.as_str()),
        )
    }
}

/// The living claims, the capacity, and how many hold.
pub(super) fn read_queue(rows: &[MySqlRow]) -> (Vec<Row>, u32, usize) {
    let rows: Vec<_> = rows.iter().filter_map(Row::read).collect();
    let capacity = rows.first().map_or(0, |row| row.capacity);
    let claims: Vec<_> = rows.iter().map(|row| row.claim).collect();
    let holders = rule::holders(capacity, &claims);
    (rows, capacity, holders)
}

pub(super) struct Row {
    claim: rule::Claim,
    capacity: u32,
    id: TicketId,
    pub(super) holder: u64,
    session: Option<LeaseId>,
    owner: Owner,
    age: Duration,
    time_left: Duration,
}

impl Row {
    fn read(row: &MySqlRow) -> Option<Self> {
        let micros = |at| number::<u64>(row, at).map(Duration::from_micros);
        Some(Self {
            claim: rule::Claim {
                order: number(row, 0)?,
                weight: number(row, 1)?,
            },
            capacity: number(row, 2)?,
            id: TicketId(bits(row, 3)?),
            holder: number(row, 4)?,
            owner: Owner::seen(&hex_text(row, 5)?, number(row, 6)?, &hex_text(row, 7)?),
            age: micros(8)?,
            time_left: micros(9)?,
            session: bits(row, 10).map(LeaseId),
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

fn eviction(row: &MySqlRow) -> Option<Eviction> {
    Some(Eviction {
        token: Token::new(number(row, 0)?),
        owner: Owner::seen(&hex_text(row, 1)?, number(row, 2)?, &hex_text(row, 3)?),
        by: hex_text(row, 4)?,
        reason: hex_text(row, 5)?,
        at: Duration::from_micros(number(row, 6)?),
    })
}
