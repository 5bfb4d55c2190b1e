//! Reads that wait for what every commit waits for: a server that was replaced and is
//! cut off from its replicas then does not answer. A transaction that changes nothing
//! waits for nobody, so it has to change something.

use std::time::Duration;

use super::text::ticket as ticket_literal;
use super::{MysqlEngine, lock};
use crate::clock::{Moment, boot_time};
use crate::engine::TicketId;
use crate::error::Result;
use crate::random::random_u128;

/// For how long it is believed what the server is set to.
const BELIEVED: Duration = Duration::from_secs(10);

/// The settings with which a commit waits for another server, if they are on.
const WAITS: &str = "show global variables where variable_name in \
     ('rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled', \
     'group_replication_group_name', 'wsrep_on') and value not in ('OFF', '0', '')";

/// Whether commits wait for another server, and when that was found out.
#[derive(Debug, Default)]
pub(super) struct Waits(Option<(bool, Moment)>);

impl MysqlEngine {
    /// What a transaction that reads has to do besides: nothing where commits wait for
    /// nobody. Else a row comes and goes, so that it is written into the log; one that
    /// nobody else uses, so that nobody waits for anybody here.
    pub(super) async fn confirming_text(&self, doing: impl Fn() -> String) -> Result<String> {
        let now = boot_time();
        let known = lock(&self.waits).0;
        let is_recent = |(_, then): &(bool, Moment)| now.since(*then) < BELIEVED;
        let waits = match known.filter(is_recent) {
            Some((waits, _)) => waits,
            None => {
                let waits = !self.ask_plainly(WAITS, doing).await?.rows.is_empty();
                lock(&self.waits).0 = Some((waits, now));
                waits
            }
        };
        if !waits {
            return Ok(String::new());
        }
        let (table, row) = (
            &self.tables.eviction,
            ticket_literal(TicketId(random_u128())),
        );
        Ok(format!(
            "insert into {table} \
             (ticket, name, token, host, pid, label, evicted_by, reason, at) \
             values ({row}, '', 0, '', 0, '', '', '', utc_timestamp(6)); \
             delete from {table} where ticket = {row};"
        ))
    }
}
