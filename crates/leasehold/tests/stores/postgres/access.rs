//! Roles, rights and servers that do not fit: one clear line each.

use leasehold::ErrorKind;

use super::{heard, lock, postgres, session, wait_for_lock};
use testbed::postgres::Postgres;

async fn refusal(url: &str) -> (ErrorKind, String) {
    let error = leasehold::connect(url).await.expect_err("it is refused");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    (error.kind(), text)
}

#[testbed::test]
async fn a_role_without_the_right_to_make_tables_needs_somebody_who_has_it() {
    let (_folder, mut server) = postgres(&[]);
    server.sql("create role app login");
    for (schema, mode) in [("of_lease", "lease"), ("of_session", "session")] {
        let options = format!("schema={schema}&mode={mode}&ttl=5s");
        let url = format!("{}?{options}", server.url_as("app"));
        let (kind, text) = refusal(&url).await;
        assert_eq!(kind, ErrorKind::Denied, "{text}");
        assert!(text.contains("`leasehold schema`"), "{text}");
        server.sql(&leasehold::postgres::schema(&url).unwrap());
        let (kind, text) = refusal(&url).await;
        assert_eq!(kind, ErrorKind::Denied, "{text}");
        server.sql(&format!(
            "grant usage on schema {schema} to app; \
             grant usage, select, update on sequence {schema}.token to app; \
             grant select, insert, update, delete on all tables in schema {schema} to app"
        ));
        let url = server.url_as("app");
        let (one, other) = (session(&url, &options).await, session(&url, &options).await);
        let guard = lock(&one, "a").await;
        let waiting = wait_for_lock(&other, "a");
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
        // It is another server then, and the counter is lifted.
        server.restart();
        lock(&other, "a").await.release().await.unwrap();
        one.close().await;
    }
}

#[testbed::test]
async fn a_table_that_is_not_ours_or_may_not_be_used_costs_memos_and_no_locks() {
    let (_folder, server) = postgres(&[]);
    let keeps_memos = async |url: &str, options: &str| {
        let one = session(url, options).await;
        let guard = lock(&one, "a").await;
        let written = guard.write_memo("x").await;
        guard.release().await.unwrap();
        if let Err(error) = &written {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        let read = one.memo("a").await;
        assert_eq!(read.is_ok(), written.is_ok());
        written.is_ok()
    };
    // An application's own, in a schema that has no locks yet, and in one of an
    // older leasehold.
    server.sql("create schema theirs; create table theirs.memo (id bigint, body text)");
    assert!(!keeps_memos(&server.url(), "schema=theirs").await);
    assert!(!keeps_memos(&server.url(), "schema=theirs").await);
    let forget = "drop table old.memo; drop function old.memo_write, old.memo_read";
    assert!(keeps_memos(&server.url(), "schema=old").await);
    server.sql(forget);
    assert!(keeps_memos(&server.url(), "schema=old").await);
    // Its rights were granted before there were memos.
    server.sql(forget);
    server.sql(
        "create role app login; grant usage on schema old to app; \
         grant usage, select, update on sequence old.token to app; \
         grant select, insert, update, delete on all tables in schema old to app",
    );
    assert!(!keeps_memos(&server.url_as("app"), "schema=old").await);
    assert!(keeps_memos(&server.url(), "schema=old").await);
    assert!(!keeps_memos(&server.url_as("app"), "schema=old").await);
    // Without the right to remove what has ended it would stay.
    server.sql("grant select, insert, update on old.memo to app");
    assert!(!keeps_memos(&server.url_as("app"), "schema=old").await);
    server.sql("grant delete on old.memo to app");
    assert!(keeps_memos(&server.url_as("app"), "schema=old").await);
    // One of the time when no memo ended gets what it lacks, and keeps its rows.
    server.sql("alter table old.memo drop column expires");
    assert!(!keeps_memos(&server.url_as("app"), "schema=old").await);
    assert!(keeps_memos(&server.url(), "schema=old").await);
    assert!(keeps_memos(&server.url_as("app"), "schema=old").await);
    assert_eq!(server.sql("select count(*) from old.memo"), "1");
    // Making it fails, and not for want of a right.
    server.sql(forget);
    server.sql("create type old.memo as enum ('a')");
    assert!(!keeps_memos(&server.url(), "schema=old").await);
}

#[testbed::test]
async fn a_wrong_password_or_database_or_server_is_named() {
    let (_folder, server) = postgres(&[]);
    server.sql("create role ann login password 'right'");
    let rules = "host all u 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(server.data().join("pg_hba.conf"), rules).unwrap();
    server.sql("select pg_reload_conf()");
    let place = |user: &str, database: &str| {
        format!("postgres://{user}@127.0.0.1:{}/{database}", server.port)
    };
    testbed::wait_for("the new rules", || {
        let listed = server.sql("select count(*) from pg_hba_file_rules");
        (listed == "2").then_some(())
    });
    let (kind, text) = refusal(&place("ann:hunter2", "postgres")).await;
    assert_eq!(kind, ErrorKind::Denied, "{text}");
    assert!(
        !text.contains("hunter2") && text.contains("password"),
        "{text}"
    );
    server.sql("grant create on database postgres to ann");
    let right = session(&place("ann:right", "postgres"), "schema=anns").await;
    lock(&right, "a").await.release().await.unwrap();
    let (kind, text) = refusal(&place("u", "nowhere")).await;
    assert_eq!(kind, ErrorKind::Config, "{text}");
    assert!(text.contains("nowhere"), "{text}");
    let (kind, text) = refusal("postgres://u@127.0.0.1:1/x").await;
    assert_eq!(kind, ErrorKind::Unavailable, "{text}");
}

#[testbed::test]
async fn a_newer_layout_and_a_foreign_schema_are_refused() {
    let (_folder, server) = postgres(&[]);
    drop(session(&server.url(), "").await);
    server.sql("update leasehold.meta set version = 2");
    let (kind, text) = refusal(&server.url()).await;
    assert_eq!(kind, ErrorKind::Config);
    assert!(text.contains("version 2 is newer than 1"), "{text}");
    server.sql("create schema other; create table other.meta (version text)");
    let (kind, text) = refusal(&format!("{}?schema=other", server.url())).await;
    assert_eq!(kind, ErrorKind::Config);
    assert!(text.contains("choose another"), "{text}");
}

#[testbed::test]
async fn a_server_that_is_read_only_is_refused() {
    let (_folder, server) = postgres(&["default_transaction_read_only=on"]);
    let (kind, text) = refusal(&server.url()).await;
    assert_eq!(kind, ErrorKind::Denied);
    assert!(text.contains("read only"), "{text}");
}

#[testbed::test]
async fn a_standby_is_refused_and_takes_over_when_it_is_promoted() {
    let (folder, server) = postgres(&["wal_level=replica"]);
    let one = session(&server.url(), "ttl=20s").await;
    let guard = lock(&one, "a").await;
    let standby = super::hosts::standby_of(&server, folder.path());
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

#[testbed::test]
async fn odd_schemas_and_names_stay_in_their_quotes() {
    let (_folder, server) = postgres(&["standard_conforming_strings=off"]);
    let schema = "schema=a%22b'%5C%20c";
    let one = session(&server.url(), schema).await;
    let names = [
        "it's",
        "\\",
        "\\'; drop table x; --",
        "$$",
        "%s",
        "a\"b",
        "{}",
        "🔒",
    ];
    let mut guards = Vec::new();
    for name in names {
        guards.push(lock(&one, name).await);
    }
    let inspector = super::inspector(&format!("{}?{schema}", server.url())).await;
    let mut listed: Vec<_> = inspector.names("").await.unwrap();
    let mut names = names.map(|name| leasehold::Name::new(name).unwrap());
    names.sort();
    listed.sort();
    assert_eq!(listed, names);
    for guard in guards {
        guard.release().await.unwrap();
    }
}
