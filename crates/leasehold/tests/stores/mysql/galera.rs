//! A Galera cluster, of one node: what it cannot do is refused, and what it is, told.

use super::{Site, heard, lock, mysql_with, wait_for_lock};
use std::path::Path;

use leasehold::ErrorKind;

use testbed::free_port;
use testbed::mysql::lacks_mysql;

const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

fn galera() -> Site {
    let has_provider = Path::new(PROVIDER).exists();
    let lacks = lacks_mysql().or((!has_provider).then_some("galera-4"));
    testbed::need(lacks);
    let provider = format!("wsrep-provider={PROVIDER}");
    let options = format!(
        "wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{};\
         ist.recv_addr=127.0.0.1:{};gcache.size=1M",
        free_port(),
        free_port(),
    );
    let settings = [
        "wsrep-on=1",
        &provider,
        &options,
        "wsrep-cluster-address=gcomm://",
        "wsrep-new-cluster",
        "wsrep-node-address=127.0.0.1",
        "binlog-format=ROW",
        "innodb-autoinc-lock-mode=2",
    ];
    let server = mysql_with(&settings);
    assert_eq!(server.sql("select @@wsrep_on"), "1");
    server
}

#[testbed::test]
async fn named_locks_are_refused_on_galera_and_rows_are_not() {
    let server = galera();
    let url = format!("{}?mode=session", server.url());
    let error = leasehold::connect(&url).await.expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("Galera"), "{error}");
    let [one, other] = server.sessions("").await;
    let guard = lock(&one, "ledger").await;
    let token = guard.token();
    let waiting = wait_for_lock(&other, "ledger");
    guard.release().await.unwrap();
    let next = heard(waiting).await;
    assert!(next.token() > token);
    next.release().await.unwrap();
    let findings = server.inspector().await.examine().await.unwrap();
    let is_told = findings.iter().any(|found| found.what.contains("Galera"));
    assert!(is_told, "{findings:?}");
}
