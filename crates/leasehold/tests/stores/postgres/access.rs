//! Roles, rights and servers that do not fit: one clear line each.

use leasehold::ErrorKind;

use super::{lock, postgres_with, session};
use crate::steps::refusal;
use testbed::postgres::Postgres;

#[testbed::test]
async fn a_server_that_is_read_only_is_refused() {
    let server = postgres_with(&["default_transaction_read_only=on"]);
    let (kind, text) = refusal(&server.url()).await;
    assert_eq!(kind, ErrorKind::Denied);
    assert!(text.contains("read only"), "{text}");
}

#[testbed::test]
async fn a_standby_is_refused_and_takes_over_when_it_is_promoted() {
    let server = postgres_with(&["wal_level=replica"]);
    let one = server.session("ttl=20s").await;
    let guard = lock(&one, "a").await;
    let standby = super::hosts::standby_of(&server);
    let (kind, text) = refusal(&standby.url()).await;
    assert_eq!(kind, ErrorKind::Config);
    assert!(text.contains("standby"), "{text}");
    let token = guard.token();
    testbed::wait_for("the claim on the standby", || {
        let count = standby.sql("select count(*) from leasehold.claim where name = 'a'");
        (count == "1").then_some(())
    });
    nothing_is_believed_of(&standby);
    standby.sql("select pg_promote()");
    let other = session(&standby.url(), "ttl=20s").await;
    // It has the claim, and what comes after it has a far greater token.
    assert!(other.mutex("a").try_lock().await.unwrap().is_none());
    let next = lock(&other, "b").await.token();
    assert!(next.get() > token.get() + (1 << 32), "{token} {next}");
}

/// Whatever a standby is asked, it refuses, and never says who holds what.
fn nothing_is_believed_of(standby: &Postgres) {
    let id = "'00000000-0000-0000-0000-000000000001'";
    let calls = [
        format!("open({id}, 1000, 'host', 1, '')"),
        format!("renew({id}, 1000, '{{}}', '{{}}', '{{}}')"),
        format!("close({id}, true)"),
        format!("enqueue('a', {id}, {id}, 0, 0, 1, 1, false, null)"),
        format!("enqueue('a', {id}, {id}, 0, 0, 1, 1, true, null)"),
        format!(
            "enqueue_all('{{a}}', array[{id}::uuid], {id}, 0, '{{0}}', '{{1}}', '{{1}}', '{{a}}')"
        ),
        format!("look('a', {id}, 1)"),
        format!("take_over('a', {id}, 1)"),
        format!("withdraw('a', null, {id}, null)"),
        format!("leave('{{a}}', array[{id}::uuid])"),
        format!("evict('a', {id}, '', '')"),
        // Before a barrier's look at who holds.
        "prove()".into(),
    ];
    for call in calls {
        let answer = standby.try_sql(&format!("select * from leasehold.{call}"));
        let error = answer.expect_err(&call);
        assert!(error.contains("the server is a standby"), "{call}: {error}");
    }
}
