//! Users, rights and servers that do not fit: one clear line each.

use leasehold::{ErrorKind, Lost};

use super::{heard, lock, lost, mysql, session, wait_for_lock};

async fn refusal(url: &str) -> (ErrorKind, String) {
    let error = leasehold::connect(url).await.expect_err("it is refused");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    (error.kind(), text)
}

#[testbed::test]
async fn a_user_without_the_right_to_make_tables_needs_somebody_who_has_it() {
    let (_folder, server) = mysql(&[]);
    server.sql("create user app@'127.0.0.1'; grant select on shop.* to app@'127.0.0.1'");
    let url = server.url_as("app");
    let (kind, text) = refusal(&url).await;
    assert_eq!(kind, ErrorKind::Denied, "{text}");
    assert!(text.contains("`leasehold schema`"), "{text}");
    server.sql(&leasehold::mysql::schema(&url).unwrap());
    let (kind, text) = refusal(&url).await;
    assert_eq!(kind, ErrorKind::Denied, "{text}");
    server.sql("grant select, insert, update, delete on shop.* to app@'127.0.0.1'");
    let (one, other) = (session(&url, "").await, session(&url, "").await);
    let guard = lock(&one, "a").await;
    let waiting = wait_for_lock(&other, "a");
    guard.release().await.unwrap();
    heard(waiting).await.release().await.unwrap();
    one.close().await;
}

#[testbed::test]
async fn a_table_that_is_not_ours_or_may_not_be_used_costs_memos_and_no_locks() {
    let (_folder, server) = mysql(&[]);
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
    // An application's own, where there are no locks yet, and where there are.
    server.sql("create table theirs_memo (id bigint, body text)");
    assert!(!keeps_memos(&server.url(), "schema=theirs").await);
    assert!(!keeps_memos(&server.url(), "schema=theirs").await);
    // Tables of an older leasehold.
    assert!(keeps_memos(&server.url(), "schema=old").await);
    server.sql("drop table old_memo");
    assert!(keeps_memos(&server.url(), "schema=old").await);
    server.sql("alter table old_memo drop column expires");
    assert!(keeps_memos(&server.url(), "schema=old").await);
    let ends = "select count(*) from information_schema.columns \
                where table_name = 'old_memo' and column_name = 'expires'";
    assert_eq!(server.sql(ends), "1");
    // Its rights were granted before there were memos.
    server.sql("drop table old_memo; create user app@'127.0.0.1'");
    for table in ["meta", "session", "claim", "eviction"] {
        server.sql(&format!(
            "grant select, insert, update, delete on shop.old_{table} to app@'127.0.0.1'"
        ));
    }
    assert!(!keeps_memos(&server.url_as("app"), "schema=old").await);
    assert!(keeps_memos(&server.url(), "schema=old").await);
    server.sql("grant select on shop.old_memo to app@'127.0.0.1'");
    assert!(!keeps_memos(&server.url_as("app"), "schema=old").await);
    server.sql("grant insert, update, delete on shop.old_memo to app@'127.0.0.1'");
    assert!(keeps_memos(&server.url_as("app"), "schema=old").await);
}

#[testbed::test]
async fn that_memos_may_not_be_removed_is_told() {
    let (_folder, server) = mysql(&[]);
    drop(session(&server.url(), "").await);
    server.sql(
        "create user app@'127.0.0.1'; grant select, insert, update on shop.* to app@'127.0.0.1'",
    );
    for table in ["session", "claim", "eviction"] {
        server.sql(&format!(
            "grant delete on shop.leasehold_{table} to app@'127.0.0.1'"
        ));
    }
    let is_told = async || {
        let inspector = super::inspector(&server.url_as("app")).await;
        let findings = inspector.examine().await.unwrap();
        findings.iter().any(|it| it.remedy.contains("grant delete"))
    };
    assert!(is_told().await);
    server.sql("grant delete on shop.leasehold_memo to app@'127.0.0.1'");
    assert!(!is_told().await);
}

#[testbed::test]
async fn a_wrong_password_or_database_or_server_is_named() {
    let (_folder, server) = mysql(&[]);
    server.sql("create user ann@'127.0.0.1' identified by 'right'");
    let place = |user: &str, database: &str| {
        format!("mariadb://{user}@127.0.0.1:{}/{database}", server.port)
    };
    let (kind, text) = refusal(&place("ann:hunter2", "shop")).await;
    assert_eq!(kind, ErrorKind::Denied, "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    server.sql("grant all on shop.* to ann@'127.0.0.1'");
    let right = session(&place("ann:right", "shop"), "schema=anns").await;
    lock(&right, "a").await.release().await.unwrap();
    let (kind, text) = refusal(&place("root", "nowhere")).await;
    assert_eq!(kind, ErrorKind::Config, "{text}");
    assert!(text.contains("nowhere"), "{text}");
    let (kind, text) = refusal("mysql://u@127.0.0.1:1/x").await;
    assert_eq!(kind, ErrorKind::Unavailable, "{text}");
}

#[testbed::test]
async fn a_newer_layout_and_foreign_tables_are_refused() {
    let (_folder, server) = mysql(&[]);
    drop(session(&server.url(), "").await);
    server.sql("update leasehold_meta set version = 2");
    let (kind, text) = refusal(&server.url()).await;
    assert_eq!(kind, ErrorKind::Config);
    assert!(text.contains("version 2 is newer than 1"), "{text}");
    server.sql("create table other_meta (version text)");
    let (kind, _) = refusal(&format!("{}?schema=other", server.url())).await;
    assert_eq!(kind, ErrorKind::Config);
}

#[testbed::test]
async fn many_may_be_the_first_at_once() {
    let (_folder, server) = mysql(&[]);
    for round in 0..5 {
        let url = format!("{}?schema=round{round}", server.url());
        let first = |_| {
            let url = url.clone();
            tokio::spawn(async move { leasehold::connect(&url).await.unwrap() })
        };
        for first in (0..8).map(first).collect::<Vec<_>>() {
            lock(&heard(first).await, "a")
                .await
                .release()
                .await
                .unwrap();
        }
    }
}

#[testbed::test]
async fn a_server_that_is_read_only_is_refused_and_noticed_later() {
    let (_folder, server) = mysql(&[]);
    server.sql("create user app@'127.0.0.1'; grant all on shop.* to app@'127.0.0.1'");
    let url = server.url_as("app");
    let one = session(&url, "ttl=20s&patience=1s").await;
    let _guard = lock(&one, "a").await;
    let root = session(&server.url(), "ttl=3s&patience=1s").await;
    let guard = lock(&root, "c").await;
    server.sql("set global read_only = 1");
    let (kind, text) = refusal(&url).await;
    assert_eq!(kind, ErrorKind::Config);
    assert!(text.contains("read only"), "{text}");
    // A try that writes nothing is not believed either.
    let error = one.mutex("b").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // Nor is it used by those who may write to it.
    let error = root.mutex("b").try_lock().await.unwrap_err();
    assert!(error.to_string().contains("read only"), "{error}");
    assert_eq!(lost(&guard).await, Lost::Deadline);
    let claims = "select count(*) from leasehold_claim where name = 'b'";
    assert_eq!(server.sql(claims), "0");
}

#[testbed::test]
async fn odd_schemas_and_names_stay_in_their_quotes() {
    let (_folder, server) = mysql(&["sql-mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES"]);
    let schema = "schema=a%60b'%5C%20c";
    let one = session(&server.url(), schema).await;
    let names = [
        "it's",
        "\\",
        "\\'; drop table x; --",
        "a",
        "A",
        "a ",
        "%s",
        "a`b",
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

#[testbed::test]
async fn what_weakens_a_promise_is_told() {
    let (_folder, server) = mysql(&["innodb-flush-log-at-trx-commit=0"]);
    let inspector = super::inspector(&server.url()).await;
    let findings = inspector.examine().await.unwrap();
    let told = |part: &str| findings.iter().any(|finding| finding.what.contains(part));
    assert!(told("MariaDB"), "{findings:?}");
    assert!(told("innodb_flush_log_at_trx_commit is 0"), "{findings:?}");
    server.sql("alter table leasehold_eviction engine = Aria");
    let findings = inspector.examine().await.unwrap();
    assert!(findings.iter().any(|finding| finding.what.contains("Aria")));
}
