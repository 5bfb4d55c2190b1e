//! Users, rights and servers that do not fit: one clear line each.

use leasehold::{ErrorKind, Name, mysql, postgres};

use super::{Kind, Site};
use crate::steps::{heard, inspector, lock, refusal, session, wait_for_lock};

cases! {
    a_user_without_the_right_to_make_tables_needs_somebody_who_has_it,
    a_table_that_is_not_ours_or_may_not_be_used_costs_memos_and_no_locks,
    a_wrong_password_or_database_or_server_is_named,
    a_newer_layout_and_foreign_tables_are_refused,
    many_may_be_the_first_at_once,
    odd_schemas_and_names_stay_in_their_quotes,
}

async fn a_user_without_the_right_to_make_tables_needs_somebody_who_has_it(kind: Kind) {
    let mut site = kind.alone(&[]);
    let app = site.user("app");
    if kind != Kind::Postgres {
        site.sql(&format!("grant select on {}.* to {app}", site.database));
    }
    for (schema, mode) in [("of_lease", "lease"), ("of_session", "session")] {
        let options = format!("schema={schema}&mode={mode}&ttl=20s");
        let url = format!("{}?{options}", site.url_as("app"));
        let (denied, text) = refusal(&url).await;
        assert_eq!(denied, ErrorKind::Denied, "{text}");
        assert!(text.contains("`leasehold schema`"), "{text}");
        site.sql(&match kind {
            Kind::Postgres => postgres::schema(&url).unwrap(),
            Kind::MariaDb | Kind::Mysql => mysql::schema(&url).unwrap(),
        });
        let (denied, text) = refusal(&url).await;
        assert_eq!(denied, ErrorKind::Denied, "{text}");
        site.sql(&match kind {
            Kind::Postgres => format!(
                "grant usage on schema {schema} to app; \
                 grant usage, select, update on sequence {schema}.token to app; \
                 grant select, insert, update, delete on all tables in schema {schema} to app"
            ),
            Kind::MariaDb | Kind::Mysql => format!(
                "grant select, insert, update, delete on {}.* to {app}",
                site.database
            ),
        });
        let url = site.url_as("app");
        let (one, other) = (session(&url, &options).await, session(&url, &options).await);
        let guard = lock(&one, "a").await;
        let waiting = wait_for_lock(&other, "a");
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
        // It is another server then, which has to be met.
        site.restart();
        lock(&other, "a").await.release().await.unwrap();
        one.close().await;
        if kind != Kind::Postgres {
            site.sql(&format!(
                "revoke insert, update, delete on {}.* from {app}",
                site.database
            ));
        }
    }
}

async fn a_table_that_is_not_ours_or_may_not_be_used_costs_memos_and_no_locks(kind: Kind) {
    let site = kind.alone(&[]);
    let (root, of_app) = (site.url(), site.url_as("app"));
    let keeps_memos = async |url: &str, schema: &str| {
        let one = session(url, &format!("schema={schema}")).await;
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
    // An application's own, where there are no locks yet, and where there are.
    site.sql(kind.pick(
        "create schema theirs; create table theirs.memo (id bigint, body text)",
        "create table theirs_memo (id bigint, body text)",
    ));
    assert!(!keeps_memos(&root, "theirs").await);
    assert!(!keeps_memos(&root, "theirs").await);
    // Tables of an older leasehold.
    let forget = kind.pick(
        "drop table old.memo; drop function old.memo_write, old.memo_read",
        "drop table old_memo",
    );
    assert!(keeps_memos(&root, "old").await);
    site.sql(forget);
    assert!(keeps_memos(&root, "old").await);
    // Rights that were granted before there were memos.
    site.sql(forget);
    let app = site.user("app");
    match kind {
        Kind::Postgres => {
            let grants = "grant usage on schema old to app; \
                 grant usage, select, update on sequence old.token to app; \
                 grant select, insert, update, delete on all tables in schema old to app";
            site.sql(grants);
        }
        Kind::MariaDb | Kind::Mysql => {
            for table in ["meta", "session", "claim", "eviction"] {
                grant(&site, "select, insert, update, delete", table, &app);
            }
        }
    }
    assert!(!keeps_memos(&of_app, "old").await);
    assert!(keeps_memos(&root, "old").await);
    assert!(!keeps_memos(&of_app, "old").await);
    // On PostgreSQL it also has to remove what has ended, which would stay.
    grant(
        &site,
        kind.pick("select, insert, update", "select"),
        "memo",
        &app,
    );
    assert!(!keeps_memos(&of_app, "old").await);
    grant(&site, "select, insert, update, delete", "memo", &app);
    assert!(keeps_memos(&of_app, "old").await);
    // One of the time when no memo ended gets what it lacks, and keeps its rows.
    let table = kind.pick("old.memo", "old_memo");
    site.sql(&format!("alter table {table} drop column expires"));
    assert!(!keeps_memos(&of_app, "old").await);
    assert!(keeps_memos(&root, "old").await);
    assert!(keeps_memos(&of_app, "old").await);
    let kept = format!("select count(*), count(expires) from {table}");
    assert_eq!(site.sql(&kept), "1|0");
    if kind == Kind::Postgres {
        // Making it fails, and not for want of a right.
        site.sql(forget);
        site.sql("create type old.memo as enum ('a')");
        assert!(!keeps_memos(&root, "old").await);
    }
}

/// Grants rights on a table of the schema `old`.
fn grant(site: &Site, rights: &str, table: &str, user: &str) {
    let table = site
        .kind
        .pick(format!("old.{table}"), format!("old_{table}"));
    site.sql(&format!("grant {rights} on {table} to {user}"));
}

async fn a_wrong_password_or_database_or_server_is_named(kind: Kind) {
    let site = kind.alone(&[]);
    let ann = site.user("ann");
    let database = &site.database;
    match kind {
        Kind::Postgres => {
            site.sql("alter role ann password 'right'");
            site.sql(&format!("grant create on database {database} to ann"));
            site.admit(&[
                "host all u 127.0.0.1/32 trust",
                "host all all 127.0.0.1/32 scram-sha-256",
            ]);
        }
        Kind::MariaDb | Kind::Mysql => {
            site.sql(&format!("alter user {ann} identified by 'right'"));
            site.sql(&format!("grant all on {database}.* to {ann}"));
        }
    }
    let (denied, text) = refusal(&site.url_as("ann:hunter2")).await;
    assert_eq!(denied, ErrorKind::Denied, "{text}");
    let says_why = text.contains("password") || kind != Kind::Postgres;
    assert!(!text.contains("hunter2") && says_why, "{text}");
    let right = session(&site.url_as("ann:right"), "schema=anns").await;
    lock(&right, "a").await.release().await.unwrap();
    let (config, text) = refusal(&site.url().replace(&format!("/{database}"), "/nowhere")).await;
    assert_eq!(config, ErrorKind::Config, "{text}");
    assert!(text.contains("nowhere"), "{text}");
    let scheme = kind.pick("postgres", "mysql");
    let (away, text) = refusal(&format!("{scheme}://u@127.0.0.1:1/x")).await;
    assert_eq!(away, ErrorKind::Unavailable, "{text}");
}

async fn a_newer_layout_and_foreign_tables_are_refused(kind: Kind) {
    let site = kind.shared();
    drop(site.session("").await);
    site.sql("update leasehold.meta set version = 2");
    let (config, text) = refusal(&site.url()).await;
    assert_eq!(config, ErrorKind::Config);
    assert!(text.contains("version 2 is newer than 1"), "{text}");
    site.sql(kind.pick(
        "create schema other; create table other.meta (version text)",
        "create table other_meta (version text)",
    ));
    let (config, text) = refusal(&format!("{}?schema=other", site.url())).await;
    assert_eq!(config, ErrorKind::Config);
    assert!(text.contains(kind.pick("choose another", "")), "{text}");
}

async fn many_may_be_the_first_at_once(kind: Kind) {
    let site = kind.shared();
    for round in 0..5 {
        let url = format!("{}?schema=round{round}", site.url());
        let first = |_| {
            let url = url.clone();
            tokio::spawn(async move { leasehold::connect(&url).await.unwrap() })
        };
        for first in (0..8).map(first).collect::<Vec<_>>() {
            let guard = lock(&heard(first).await, "a").await;
            guard.release().await.unwrap();
        }
    }
}

async fn odd_schemas_and_names_stay_in_their_quotes(kind: Kind) {
    let site = kind.alone(&[kind.pick(
        "standard_conforming_strings=off",
        "sql-mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES",
    )]);
    let schema = kind.pick("schema=a%22b'%5C%20c", "schema=a%60b'%5C%20c");
    let one = site.session(schema).await;
    let names = [
        "it's",
        "\\",
        "\\'; drop table x; --",
        "$$",
        "a",
        "A",
        "a ",
        "%s",
        "a\"b",
        "a`b",
        "{}",
        "🔒",
    ];
    let mut guards = Vec::new();
    for name in names {
        guards.push(lock(&one, name).await);
    }
    let inspector = inspector(&format!("{}?{schema}", site.url())).await;
    let mut listed = inspector.names("").await.unwrap();
    let mut names = names.map(|name| Name::new(name).unwrap());
    names.sort();
    listed.sort();
    assert_eq!(listed, names);
    for guard in guards {
        guard.release().await.unwrap();
    }
}
