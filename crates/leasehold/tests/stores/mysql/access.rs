//! Users, rights and servers that do not fit: one clear line each.

use leasehold::{ErrorKind, Lost};

use super::{lock, lost, mysql_with, session};
use crate::steps::refusal;

#[testbed::test]
async fn that_memos_may_not_be_removed_is_told() {
    let server = mysql_with(&[]);
    drop(server.session("").await);
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
async fn a_server_that_is_read_only_is_refused_and_noticed_later() {
    let server = mysql_with(&[]);
    server.sql("create user app@'127.0.0.1'; grant all on shop.* to app@'127.0.0.1'");
    let url = server.url_as("app");
    let one = session(&url, "ttl=20s&patience=1s").await;
    let _guard = lock(&one, "a").await;
    let root = server.session("ttl=3s&patience=1s").await;
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
async fn what_weakens_a_promise_is_told() {
    let server = mysql_with(&["innodb-flush-log-at-trx-commit=0"]);
    let inspector = server.inspector().await;
    let findings = inspector.examine().await.unwrap();
    let told = |part: &str| findings.iter().any(|finding| finding.what.contains(part));
    assert!(told("MariaDB"), "{findings:?}");
    assert!(told("innodb_flush_log_at_trx_commit is 0"), "{findings:?}");
    server.sql("alter table leasehold_eviction engine = Aria");
    let findings = inspector.examine().await.unwrap();
    assert!(findings.iter().any(|finding| finding.what.contains("Aria")));
}
