//! Which server's term it is. A failover forgets the last grants and renewals, and
//! the way back may forget that there was one. So whoever first meets a server that
//! is not the one of the term begins another, and nothing is granted before that:
//! a replica that has a row of a term has heard of the term too. Each row keeps its
//! term in mind, and the first order of a later one is far above.

use std::sync::atomic::Ordering;

use sqlx_mysql::MySqlRow;

use super::MysqlEngine;
use super::layout::{CLOCK, Kind, WRITABLE};
use super::line::guarded;
use super::look::strange;
use super::pool::{Lane, READ_COMMITTED};
use super::takeover::ENDED;
use super::text::{column, number};
use crate::error::{Error, ErrorKind, Result};

/// By how many seconds two looks at the same start of a server may differ.
pub(super) const START_IS_ABOUT: u64 = 5;

impl MysqlEngine {
    /// Whether it is this server's term, by `m`, the row that says so; and not one
    /// that others, whom this server has not heard of, began after it.
    pub(super) fn current_text(&self) -> String {
        format!(
            "(m.server = {} and m.term >= {} and {WRITABLE})",
            self.kind.identity(),
            self.term.load(Ordering::Acquire),
        )
    }

    /// The same for a grant, which needs the very term that we know: whoever is granted
    /// something in a term has heard of it.
    pub(super) fn granting_text(&self) -> String {
        let known = self.term.load(Ordering::Acquire);
        format!("({} and m.term = {known})", self.current_text())
    }

    /// Whether we have heard of no later term.
    pub(super) fn is_latest(&self, term: u64) -> bool {
        term >= self.term.load(Ordering::Acquire)
    }

    /// Hears which term has begun.
    pub(super) fn hears_term(&self, rows: &[MySqlRow]) {
        if let Some(term) = rows.last().and_then(|row| number(row, 0)) {
            self.learns_term(term);
        }
    }

    /// Keeps in mind that there was such a term.
    pub(super) fn learns_term(&self, term: u64) {
        self.term.fetch_max(term, Ordering::AcqRel);
    }

    /// The statements that find out what `beginning_text` needs.
    pub(super) fn term_text(&self) -> String {
        format!(
            "select {}, m.started, unix_timestamp(), m.term, {WRITABLE} from {} m; \
             show global status like 'Uptime'",
            self.current_text(),
            self.tables.meta,
        )
    }

    /// What begins a term for this server, by what `term_text` answered. `None` if
    /// it is its term and it was not started anew since.
    pub(super) fn beginning_text(
        &self,
        rows: &[MySqlRow],
        doing: impl Fn() -> String,
    ) -> Result<Option<String>> {
        let known = rows.first().and_then(|row| {
            let now = number::<u64>(row, 2)?;
            Some((column(row, 0)? == "1", number::<u64>(row, 1)?, now, row))
        });
        let uptime: Option<u64> = rows.get(1).and_then(|row| number(row, 1));
        let (Some((is_current, known, now, row)), Some(uptime)) = (known, uptime) else {
            return Err(strange(doing(), &self.pool.label));
        };
        if column(row, 4).as_deref() != Some("1") {
            // Another way may lead to the server that takes writes by now.
            self.pool.forget_connections();
            let why = "the server is read only: name the server that takes writes";
            return Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*self.pool.label));
        }
        let started = match self.kind {
            // Its nodes started at different times, and forget nothing together.
            Kind::Galera => known,
            Kind::Mysql | Kind::MariaDb => now.saturating_sub(uptime),
        };
        if is_current && started.abs_diff(known) <= START_IS_ABOUT {
            if let Some(term) = number(row, 3) {
                self.learns_term(term);
            }
            return Ok(None);
        }
        Ok(Some(self.begin_text(started)))
    }

    /// The last renewals may be forgotten, or nobody could renew. Whoever has not
    /// ended for good gets its whole time once more, and not more than that: what stands
    /// there was written by another server's clock. Whole locks may be forgotten
    /// too: those that are new here begin above whatever was drawn. Requests that rely
    /// on the term before come too late, by the sessions' epochs.
    fn begin_text(&self, started: u64) -> String {
        format!(
            "{READ_COMMITTED}; \
             select not ({current} and greatest(m.started, {started}) \
             - least(m.started, {started}) <= {START_IS_ABOUT}) into @leasehold_begins \
             from {meta} m for update; \
             update {session} set expires = utc_timestamp(6) + interval ttl microsecond, \
             epoch = epoch + 1 \
             where expires > {ENDED} and @leasehold_begins; \
             update {meta} m set \
             m.floor = if({current}, m.floor, greatest(m.floor, {CLOCK}) \
             + (greatest(m.term, {known}) + 1 - m.term) * 4294967296), \
             m.term = if({current}, m.term, greatest(m.term, {known}) + 1), \
             m.server = {server}, m.started = {started} where @leasehold_begins; \
             select m.term from {meta} m; commit",
            current = self.current_text(),
            known = self.term.load(Ordering::Acquire),
            meta = self.tables.meta,
            session = self.tables.session,
            server = self.kind.identity(),
        )
    }
}

/// Begins a term if it is not this server's.
pub(super) async fn settle(
    engine: &MysqlEngine,
    lane: Lane,
    doing: impl Fn() -> String,
) -> Result<()> {
    let answer = engine
        .pool
        .ask_plainly(lane, &engine.term_text(), &doing)
        .await?;
    if let Some(begin) = engine.beginning_text(&answer.rows, &doing)? {
        let begin = guarded(&begin);
        let answer = engine.pool.ask_on(lane, &begin, &doing).await?;
        engine.hears_term(&answer.rows);
    }
    Ok(())
}
