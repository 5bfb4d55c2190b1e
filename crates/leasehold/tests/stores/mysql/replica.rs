//! A real replica: refused while it is one, followed when it takes over.

use leasehold::{ErrorKind, Lost};

use super::{Site, heard, lock, lost, mysql_with, session, wait_for_lock};
use crate::sql::way::Way;
use testbed::wait_for;

/// A server, and one that has what it writes a little later.
struct Pair {
    lead: Site,
    replica: Site,
}

impl Pair {
    fn start() -> Self {
        let settings = |id| ["log-bin=log", "log-slave-updates=1", id];
        let lead = mysql_with(&settings("server-id=1"));
        let replica = mysql_with(&settings("server-id=2"));
        // Both have the database already.
        lead.sql("reset master");
        replica.sql(&format!(
            "reset master; change master to master_host = '127.0.0.1', master_port = {}, \
             master_user = 'root', master_use_gtid = slave_pos; start slave; \
             set global read_only = 1",
            lead.mysql().port
        ));
        Self { lead, replica }
    }

    /// Waits until the replica has everything.
    fn catch_up(&self) {
        let written = self.lead.sql("select @@gtid_binlog_pos");
        wait_for("a replica that has everything", || {
            let has = self.replica.sql("select @@gtid_slave_pos");
            (has == written).then_some(())
        });
    }

    /// The replica hears of nothing more.
    fn part(&self) {
        self.replica.sql("stop slave");
    }

    /// The server is gone, and the replica takes its place.
    fn fail_over(&mut self) {
        self.lead.kill();
        self.replica
            .sql("stop slave; reset slave all; set global read_only = 0");
    }
}

#[testbed::test]
async fn a_replica_is_refused() {
    let pair = Pair::start();
    let one = session(&pair.lead.url(), "").await;
    let _guard = lock(&one, "ledger").await;
    pair.catch_up();
    let held = "select count(*) from leasehold_claim where ticket is not null";
    assert_eq!(pair.replica.sql(held), "1");
    let error = leasehold::connect(&pair.replica.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("read only"), "{error}");
}

#[testbed::test]
async fn a_replica_that_takes_over_keeps_what_it_had_and_tokens_grow() {
    let mut pair = Pair::start();
    let way = Way::to(&pair.lead.url()).await;
    let (one, other) = (
        session(&way.url(), "ttl=10s&ssl-mode=disabled").await,
        session(&way.url(), "ttl=10s&ssl-mode=disabled").await,
    );
    let kept = lock(&one, "kept").await;
    let waiting = wait_for_lock(&other, "kept");
    lock(&one, "ledger").await.release().await.unwrap();
    pair.catch_up();
    pair.part();
    // What the replica never hears of.
    let forgotten = lock(&one, "forgotten").await;
    let ledger = lock(&one, "ledger").await;
    let last = ledger.token();
    ledger.release().await.unwrap();
    pair.fail_over();
    way.leads_to(pair.replica.mysql().port);
    assert_eq!(lost(&forgotten).await, Lost::Gone);
    let term = pair.replica.sql("select server, term from leasehold_meta");
    assert!(term.ends_with(" 2|1"), "{term}");
    let ledger = lock(&one, "ledger").await;
    assert!(ledger.token().get() > last.get() + (1 << 32));
    let again = lock(&other, "forgotten").await;
    assert!(again.token() > forgotten.token());
    // The claim and its place are there as they were.
    kept.check().unwrap();
    assert!(!waiting.is_finished());
    let token = kept.token();
    kept.release().await.unwrap();
    assert!(heard(waiting).await.token() > token);
}

#[testbed::test]
async fn a_lead_that_comes_back_grants_nothing_in_its_old_term() {
    let pair = Pair::start();
    // It knows the lead, and hears nothing of what follows.
    let one = session(&pair.lead.url(), "ttl=1h").await;
    lock(&one, "ledger").await.release().await.unwrap();
    pair.catch_up();
    pair.part();
    // There: the other one takes over and grants.
    pair.lead.sql("set global read_only = 1");
    pair.replica
        .sql("reset slave all; set global read_only = 0");
    let there = session(&pair.replica.url(), "ttl=1h").await;
    let first = lock(&there, "ledger").await;
    // And back, after the one before has heard of the term. The last grant it has not.
    let written = pair.replica.sql("select @@gtid_binlog_pos");
    pair.lead.sql(&format!(
        "change master to master_host = '127.0.0.1', master_port = {}, master_user = 'root', \
         master_use_gtid = current_pos; start slave until master_gtid_pos = '{written}'",
        pair.replica.mysql().port
    ));
    wait_for("the one before has heard of the term", || {
        (pair.lead.sql("select term from leasehold_meta") == "1").then_some(())
    });
    first.release().await.unwrap();
    let forgotten = lock(&there, "ledger").await;
    pair.lead
        .sql("stop slave; reset slave all; update leasehold_claim set ticket = null");
    pair.lead.sql("set global read_only = 0");
    let back = lock(&one, "ledger").await;
    assert!(back.token() > forgotten.token());
    assert_eq!(pair.lead.sql("select term from leasehold_meta"), "2");
}
