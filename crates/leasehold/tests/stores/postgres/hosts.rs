//! Several servers in one URL: the one that takes writes is used.

use leasehold::{ErrorKind, Lost};

use super::{lock, lost, postgres, session};
use crate::sql::way::Way;
use testbed::postgres::{Postgres, SUPERUSER};

/// A standby that follows the server.
pub(crate) fn standby_of(server: &Postgres, folder: &std::path::Path) -> Postgres {
    let data = folder.join("standby");
    std::fs::create_dir(&data).unwrap();
    testbed::postgres::hand_over(&data);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&data, mode).unwrap();
    let mut backup =
        testbed::postgres::command(testbed::postgres::program("pg_basebackup").unwrap());
    let options = [
        "-R",
        "-X",
        "stream",
        "-c",
        "fast",
        "-d",
        &server.url(),
        "-D",
    ];
    let status = backup.args(options).arg(&data).status().unwrap();
    assert!(status.success());
    Postgres::start_on(data, Vec::new())
}

fn both(first: &Postgres, second: &Postgres) -> String {
    let (first, second) = (first.port, second.port);
    format!("postgres://{SUPERUSER}@127.0.0.1:{first},127.0.0.1:{second}/postgres")
}

#[testbed::test]
async fn a_session_follows_the_promotion_of_a_standby() {
    let (folder, mut server) = postgres(&["wal_level=replica"]);
    // Wherever the one that takes writes is named.
    session(&server.url(), "").await.close().await;
    let standby = standby_of(&server, folder.path());
    let (one, other) = (
        session(&both(&standby, &server), "ttl=20s").await,
        session(&both(&server, &standby), "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    assert!(other.mutex("ledger").try_lock().await.unwrap().is_none());
    testbed::wait_for("the claim on the standby", || {
        let count = standby.sql("select count(*) from leasehold.claim where name = 'ledger'");
        (count == "1").then_some(())
    });
    server.kill();
    standby.sql("select pg_promote()");
    // It has the claim, and so it is still ours.
    let next = lock(&other, "log").await;
    assert!(next.token().get() > guard.token().get() + (1 << 32));
    guard.check().unwrap();
    assert!(other.mutex("ledger").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(lock(&other, "ledger").await.token() > next.token());
}

#[testbed::test]
async fn a_lock_of_a_connection_is_lost_with_its_server_and_had_again_on_the_other() {
    let (folder, mut server) = postgres(&["wal_level=replica"]);
    session(&server.url(), "mode=session").await.close().await;
    let standby = standby_of(&server, folder.path());
    let one = session(&both(&standby, &server), "mode=session&ttl=1h").await;
    let guard = lock(&one, "ledger").await;
    server.kill();
    assert_eq!(lost(&guard).await, Lost::Gone);
    standby.sql("select pg_promote()");
    let again = lock(&one, "ledger").await;
    assert!(again.token().get() > guard.token().get() + (1 << 32));
}

#[testbed::test]
async fn where_no_server_takes_writes_that_is_said() {
    let (folder, mut server) = postgres(&["wal_level=replica"]);
    session(&server.url(), "").await.close().await;
    let standby = standby_of(&server, folder.path());
    let url = both(&server, &standby);
    server.kill();
    let error = leasehold::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("takes writes"), "{error}");
}

/// As when a machine loses its power: nobody says that the connections ended.
#[testbed::test(timed)]
async fn a_host_that_is_silent_is_passed_over_in_time() {
    let (_folder, server) = postgres(&[]);
    let way = Way::to(&server.url()).await;
    // The same server by two ways, so that it has the claim.
    let url = format!(
        "postgres://{SUPERUSER}@127.0.0.1:{},127.0.0.1:{}/postgres",
        way.port, server.port
    );
    let one = session(&url, "ttl=5s&sslmode=disable").await;
    let guard = lock(&one, "ledger").await;
    let of_connection = session(&url, "schema=other&mode=session&ttl=1s&sslmode=disable").await;
    let other = lock(&of_connection, "ledger").await;
    way.fall_silent();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(12);
    while std::time::Instant::now() < deadline {
        guard.check().unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // Lost with its connection, and had again over the other way.
    assert_eq!(lost(&other).await, Lost::Deadline);
    assert!(lock(&of_connection, "ledger").await.token() > other.token());
}
