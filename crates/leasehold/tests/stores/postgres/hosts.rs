//! Several servers in one URL: the one that takes writes is used.

use super::{Site, lock, lost, postgres_with, session};
use leasehold::{ErrorKind, Lost};

use crate::sql::way::Way;
use testbed::Placed;
use testbed::postgres::{Postgres, SUPERUSER, command, hand_over, program};

/// A standby that follows the server.
pub(crate) fn standby_of(server: &Site) -> Placed<Postgres> {
    Placed::start(|folder| {
        hand_over(folder);
        let data = folder.join("data");
        let mut backup = command(program("pg_basebackup").unwrap());
        backup.args(["-R", "-X", "stream", "-c", "fast"]);
        let backup = backup.args(["-d", &server.url(), "-D"]).arg(&data);
        assert!(backup.status().unwrap().success());
        Postgres::start_on(data, Vec::new())
    })
}

fn url(ports: [u16; 2]) -> String {
    let [first, second] = ports;
    format!("postgres://{SUPERUSER}@127.0.0.1:{first},127.0.0.1:{second}/postgres")
}

#[testbed::test]
async fn a_session_follows_the_promotion_of_a_standby() {
    let mut server = postgres_with(&["wal_level=replica"]);
    // Wherever the one that takes writes is named.
    server.session("").await.close().await;
    let standby = standby_of(&server);
    let (one, other) = (
        session(&url([standby.port, server.postgres().port]), "ttl=20s").await,
        session(&url([server.postgres().port, standby.port]), "ttl=20s").await,
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
    let mut server = postgres_with(&["wal_level=replica"]);
    server.session("mode=session").await.close().await;
    let standby = standby_of(&server);
    let one = session(
        &url([standby.port, server.postgres().port]),
        "mode=session&ttl=1h",
    )
    .await;
    let guard = lock(&one, "ledger").await;
    server.kill();
    assert_eq!(lost(&guard).await, Lost::Gone);
    standby.sql("select pg_promote()");
    let again = lock(&one, "ledger").await;
    assert!(again.token().get() > guard.token().get() + (1 << 32));
}

#[testbed::test]
async fn where_no_server_takes_writes_that_is_said() {
    let mut server = postgres_with(&["wal_level=replica"]);
    server.session("").await.close().await;
    let standby = standby_of(&server);
    let url = url([server.postgres().port, standby.port]);
    server.kill();
    let error = leasehold::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("takes writes"), "{error}");
}

/// As when a machine loses its power: nobody says that the connections ended.
#[testbed::test(timed)]
async fn a_host_that_is_silent_is_passed_over_in_time() {
    let server = postgres_with(&[]);
    let way = Way::to(&server.url()).await;
    // The same server by two ways, so that it has the claim.
    let url = url([way.port, server.postgres().port]);
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
