//! Behind a pooler that gives each transaction another connection.

use super::{Site, heard, inspector, lock, postgres_with, queue_of, session, wait_for_lock};
use std::path::Path;
use std::process::Child;

use leasehold::ErrorKind;
use leasehold::engine::Severity;

use testbed::postgres::{command, hand_over};
use testbed::{Placed, free_port, wait_for};

/// A running PgBouncer, ended when it is dropped.
struct Pooler {
    process: Child,
    port: u16,
}

impl Pooler {
    fn start(server: &Site) -> Placed<Self> {
        Self::start_ignoring(server, "extra_float_digits")
    }

    /// One that takes connections that bring these settings along.
    fn start_ignoring(server: &Site, settings: &str) -> Placed<Self> {
        Placed::start(|folder| Self::start_in(folder, server, settings))
    }

    fn start_in(own: &Path, server: &Site, settings: &str) -> Self {
        let port = free_port();
        let (users, config) = (own.join("users"), own.join("config"));
        std::fs::write(&users, "\"u\" \"\"\n").unwrap();
        let text = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} dbname=postgres user=u\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = 3\nmax_client_conn = 200\nlogfile = {}\n\
             ignore_startup_parameters = {settings}\n",
            server.postgres().port,
            users.display(),
            own.join("log").display(),
        );
        std::fs::write(&config, text).unwrap();
        hand_over(own);
        let process = command("pgbouncer").arg("-q").arg(&config).spawn().unwrap();
        let pooler = Self { process, port };
        wait_for("the pooler", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        pooler
    }

    fn url(&self) -> String {
        format!("postgres://u@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn lacks_pgbouncer() -> Option<&'static str> {
    let there = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    let is_there = there.iter().any(|program| Path::new(program).exists());
    (!is_there).then_some("pgbouncer")
}

#[testbed::test]
async fn locks_work_behind_a_pooler_and_doctor_says_what_does_not() {
    testbed::need(lacks_pgbouncer());
    let server = postgres_with(&[]);
    let pooler = Pooler::start(&server);
    let (one, other) = (
        session(&pooler.url(), "ttl=10s").await,
        session(&pooler.url(), "ttl=10s").await,
    );
    let inspector = inspector(&pooler.url()).await;
    for _ in 0..5 {
        let guard = lock(&one, "ledger").await;
        let waiting = wait_for_lock(&other, "ledger");
        queue_of(&inspector, "ledger", 2).await;
        let token = guard.token();
        guard.release().await.unwrap();
        let theirs = heard(waiting).await;
        assert!(theirs.token() > token);
        theirs.release().await.unwrap();
    }
    let findings = inspector.examine().await.unwrap();
    let told = findings
        .iter()
        .find(|finding| finding.what.contains("LISTEN"));
    assert_eq!(told.unwrap().severity, Severity::Warning, "{findings:?}");
    let direct = server.inspector().await;
    let findings = direct.examine().await.unwrap();
    let is_warned = findings
        .iter()
        .any(|finding| finding.what.contains("LISTEN"));
    assert!(!is_warned, "{findings:?}");
}

#[testbed::test]
async fn locks_that_belong_to_connections_are_refused_behind_a_pooler() {
    testbed::need(lacks_pgbouncer());
    let server = postgres_with(&[]);
    // The one refuses what a connection of ours brings along, the other drops it.
    for settings in ["extra_float_digits", "extra_float_digits,options"] {
        let pooler = Pooler::start_ignoring(&server, settings);
        let url = format!("{}?mode=session", pooler.url());
        let error = leasehold::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("pooler"), "{error}");
        let findings = inspector(&url).await.examine().await.unwrap();
        let told = findings
            .iter()
            .find(|finding| finding.what.contains("pooler"));
        assert_eq!(told.unwrap().severity, Severity::Unfit, "{findings:?}");
    }
    let direct = server.session("mode=session").await;
    lock(&direct, "ledger").await.release().await.unwrap();
}
