//! `mode=session`: locks that belong to connections of the server.

use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Guard, Lost, Session};

use super::{
    LONG, Site, heard, inspector, lock, lost, postgres, postgres_with, queue_of, wait_for_lock,
};
use crate::sql::way::Way;

async fn session(server: &Site, options: &str) -> Session {
    super::session(&server.url(), &format!("mode=session&{options}")).await
}

fn url(server: &Site) -> String {
    format!("{}?mode=session", server.url())
}

#[testbed::test]
async fn a_schema_is_of_one_mode() {
    let server = postgres();
    let of_session = session(&server, "schema=a").await;
    let of_lease = server.session("schema=b").await;
    for (url, schema, hint) in [
        (server.url() + "?", "a", "write mode=session"),
        (url(&server) + "&", "b", "leave mode=session out"),
    ] {
        let error = leasehold::connect(&format!("{url}schema={schema}")).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(hint), "{error}");
    }
    // Neither was harmed.
    for session in [of_session, of_lease] {
        lock(&session, "x").await.release().await.unwrap();
    }
}

#[testbed::test]
async fn only_mutexes_are_had() {
    let server = postgres();
    let one = session(&server, "").await;
    for error in [
        one.rwlock("x").read().await.unwrap_err(),
        one.semaphore("x", 3).acquire().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("mode=lease has"), "{error}");
    }
}

#[testbed::test]
async fn a_connection_that_the_server_ends_is_a_loss_told_at_once() {
    let server = postgres_with(&[]);
    // Nothing is due for hours.
    let (one, other) = (
        session(&server, "ttl=10h").await,
        session(&server, "ttl=10h").await,
    );
    let free = lock(&one, "free").await;
    let first = lock(&other, "waited for").await;
    let waiting = wait_for_lock(&one, "waited for");
    queue_of(&inspector(&url(&server)).await, "waited for", 2).await;
    first.release().await.unwrap();
    let aside = heard(waiting).await;
    // The side connection: the other lock stays.
    let end = |is_main: bool| {
        server.sql(&format!(
            "select pg_terminate_backend(l.pid) from leasehold.line l \
             join leasehold.standing(null) s using (pid) where l.is_main = {is_main}"
        ))
    };
    assert_eq!(end(false), "t");
    assert_eq!(lost(&aside).await, Lost::Gone);
    free.check().unwrap();
    let again = lock(&other, "waited for").await;
    assert!(again.token() > aside.token());
    again.release().await.unwrap();
    assert_eq!(end(true), "t");
    assert_eq!(lost(&free).await, Lost::Gone);
    // The session goes on.
    let again = lock(&one, "free").await;
    assert!(again.token() > free.token());
}

#[testbed::test]
async fn a_restart_of_the_server_is_a_loss_and_tokens_go_on_growing() {
    let mut server = postgres_with(&[]);
    let (one, other) = (
        session(&server, "ttl=1h").await,
        session(&server, "ttl=1h").await,
    );
    let waits = lock(&one, "ledger").await;
    let waiting = wait_for_lock(&other, "ledger");
    queue_of(&inspector(&url(&server)).await, "ledger", 2).await;
    let guard = draw_many(&one).await;
    server.restart();
    assert_eq!(lost(&guard).await, Lost::Gone);
    assert_eq!(lost(&waits).await, Lost::Gone);
    let next = heard(waiting).await;
    // As far as a crash could have forgotten.
    assert!(next.token().get() > guard.token().get() + (1 << 32));
}

/// The server ends all of its processes when one is killed, and goes on under the
/// same name.
#[testbed::test]
async fn tokens_go_on_growing_when_a_process_of_the_server_is_killed() {
    let server = postgres_with(&["restart_after_crash=on"]);
    let one = session(&server, "ttl=1h").await;
    let pid = server.sql("select pid from leasehold.line where is_main");
    let guard = draw_many(&one).await;
    let killing = std::process::Command::new("kill")
        .args(["-9", &pid])
        .status();
    assert!(killing.unwrap().success());
    assert_eq!(lost(&guard).await, Lost::Gone);
    let next = lock(&one, "ledger").await;
    assert!(next.token().get() > guard.token().get() + (1 << 32));
}

/// The last of many grants, whose tokens a crash forgets if it comes at once.
async fn draw_many(session: &Session) -> Guard {
    for _ in 0..300 {
        lock(session, "busy").await.release().await.unwrap();
    }
    lock(session, "busy").await
}

/// The server's own clock ends a connection that nobody uses.
#[testbed::test]
async fn the_server_ends_a_silent_connection_after_the_ttl() {
    let server = postgres_with(&[]);
    let way = Way::to(&server.url()).await;
    let url = format!("{}?mode=session&ttl=3s&sslmode=disable", way.url());
    let one = leasehold::connect(&url).await.unwrap();
    let guard = lock(&one, "ledger").await;
    let main = server.sql("select pid from leasehold.line where is_main");
    way.fall_silent();
    testbed::wait_for("the server to end the connection", || {
        let left = format!("select count(*) from pg_stat_activity where pid = {main}");
        (server.sql(&left) == "0").then_some(())
    });
    assert_eq!(lost(&guard).await, Lost::Deadline);
}

/// A connection that answers is not ended, however long nobody uses it.
#[testbed::test(timed)]
async fn a_connection_that_answers_lasts_for_longer_than_the_ttl() {
    let server = postgres();
    let one = session(&server, "ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    let deadline = Instant::now() + Duration::from_secs(7);
    while Instant::now() < deadline {
        guard.check().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    guard.release().await.unwrap();
}

#[testbed::test]
async fn waits_are_served_in_order_and_use_few_connections() {
    let server = postgres_with(&[]);
    let (one, other) = (
        session(&server, "").await,
        session(&server, "connections=3").await,
    );
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(lock(&one, &format!("n{number}")).await);
    }
    let mut waits = Vec::new();
    for number in 0..20 {
        waits.push(wait_for_lock(&other, &format!("n{number}")));
    }
    let count = || {
        let count = server.sql(
            "select count(*) from leasehold.line l join pg_stat_activity a using (pid) \
             where not is_main",
        );
        count.parse::<usize>().unwrap()
    };
    testbed::wait_for("three wait in line", || (count() == 3).then_some(()));
    for guard in held {
        guard.release().await.unwrap();
    }
    for wait in waits {
        // Held here or there, all come.
        heard(wait).await.release().await.unwrap();
        assert!(count() <= 3);
    }
}

#[testbed::test]
async fn a_wait_that_is_given_up_leaves_no_connection_in_the_line() {
    let server = postgres();
    let (one, other) = (session(&server, "").await, session(&server, "").await);
    let guard = lock(&one, "ledger").await;
    let inspector = inspector(&url(&server)).await;
    for _ in 0..3 {
        let waiting = wait_for_lock(&other, "ledger");
        queue_of(&inspector, "ledger", 2).await;
        waiting.abort();
        queue_of(&inspector, "ledger", 1).await;
    }
    let waited = other
        .mutex("ledger")
        .lock_within(Duration::from_secs(2))
        .await;
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
    guard.release().await.unwrap();
    let again = other.mutex("ledger").lock_within(LONG).await.unwrap();
    again.release().await.unwrap();
}

/// As a stopped process: its connection is there, and nobody listens to it.
#[testbed::test]
async fn a_holder_that_does_not_hear_of_the_break_is_ended() {
    let server = postgres_with(&[]);
    let one = session(&server, "").await;
    let enlist = "select leasehold.enlist(7, gen_random_uuid(), true, 600000, 'far', 1, 'deaf')";
    let mut psql = std::process::Command::new(testbed::postgres::program("psql").unwrap())
        .args(["-qAt", &server.url(), "-c", enlist])
        .args(["-c", "select leasehold.take('ledger', pg_backend_pid())"])
        .args(["-c", "select pg_sleep(600)"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let inspector = inspector(&url(&server)).await;
    queue_of(&inspector, "ledger", 1).await;
    let claim = &inspector.queue("ledger").await.unwrap().claims[0];
    assert_eq!((claim.owner.label(), claim.token), ("deaf", None));
    let waiting = wait_for_lock(&one, "ledger");
    queue_of(&inspector, "ledger", 2).await;
    assert_eq!(inspector.evict("ledger", "ann", "stuck").await.unwrap(), 1);
    heard(waiting).await.release().await.unwrap();
    assert!(!psql.wait().unwrap().success());
    let evictions = inspector.queue("ledger").await.unwrap().evictions;
    assert_eq!(evictions[0].reason, "stuck");
}
