//! What a server, a database or a role sets for every transaction does not reach
//! ours.

use super::{Site, heard, lock, postgres_with, session, wait_for_lock};
use testbed::wait_for;

#[testbed::test]
async fn defaults_that_change_under_a_session_do_not_reach_it() {
    let server = postgres_with(&[]);
    server.sql("create role app superuser login");
    let url = server.url_as("app");
    let (one, other) = (session(&url, "ttl=5s").await, session(&url, "ttl=5s").await);
    lock(&one, "ledger").await.release().await.unwrap();
    server.sql(
        "alter role app set default_transaction_isolation = 'serializable'; \
         alter role app set statement_timeout = '1ms'",
    );
    // New connections have the new defaults.
    server.end_connections();
    for _ in 0..20 {
        let guard = lock(&one, "ledger").await;
        let waiting = wait_for_lock(&other, "ledger");
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
    }
}

/// Writes down how each transaction of ours commits.
fn watch_commits(server: &Site) {
    server.sql(
        "create table commits (how text, of text); \
         create function note_commit() returns trigger language plpgsql as $$ begin \
             insert into commits values (current_setting('synchronous_commit') || ' ' \
                 || current_setting('transaction_isolation'), tg_op || ' ' || tg_table_name); \
             return null; \
         end $$; \
         create constraint trigger noted after insert or delete on leasehold.claim \
             deferrable initially deferred for each row execute function note_commit(); \
         create constraint trigger noted after insert or update or delete on leasehold.session \
             deferrable initially deferred for each row execute function note_commit()",
    );
}

/// Opens, locks, renews, releases, closes; says how that was committed.
async fn ways_to_commit(server: &Site, one: leasehold::Session) -> String {
    server.sql("truncate commits");
    let guard = lock(&one, "ledger").await;
    wait_for("a renewal", || {
        let renewals = server.sql("select count(*) from commits where of = 'UPDATE session'");
        (renewals != "0").then_some(())
    });
    guard.release().await.unwrap();
    one.close().await;
    let kinds = server.sql("select count(distinct of) from commits");
    assert!(kinds.parse::<u32>().unwrap() >= 4, "{kinds}");
    server.sql("select string_agg(distinct how, ', ') from commits")
}

#[testbed::test]
async fn every_commit_is_on_disk_and_sees_the_present_whatever_the_role_says() {
    let server = postgres_with(&[]);
    server.sql("create role app superuser login");
    let url = server.url_as("app");
    let before = session(&url, "ttl=1s").await;
    watch_commits(&server);
    for level in ["repeatable read", "serializable"] {
        server.sql(&format!(
            "alter role app set synchronous_commit = 'off'; \
             alter role app set default_transaction_isolation = '{level}'"
        ));
        let one = session(&url, "ttl=1s").await;
        assert_eq!(ways_to_commit(&server, one).await, "on read committed");
    }
    // One that found other defaults when it was opened. Only one of the two
    // changes, so that nothing but our functions can notice it.
    server.sql("alter role app reset default_transaction_isolation");
    server.end_connections();
    assert_eq!(ways_to_commit(&server, before).await, "on read committed");
}
