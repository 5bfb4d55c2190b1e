//! Another server than before, which may not have got the last commits.

use leasehold::Lost;

use super::{Site, lock, lost, postgres, postgres_with};

/// As it looks after a failover to a standby that had not got everything: this
/// SQL undoes what it lacks. The connections for requests have ended, as they do,
/// but that is found out only by the next request.
fn fail_over(server: &Site, undone: &str) {
    server.sql(&format!(
        "update leasehold.meta set server = 'another'; {undone}"
    ));
    server.sql(
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity \
         where datname = current_database() and application_name = 'leasehold' \
         and query like '%\"leasehold\".%'",
    );
}

#[testbed::test]
async fn the_first_request_after_a_failover_draws_a_greater_token() {
    let server = postgres();
    let [one, other] = server.sessions("ttl=1h").await;
    for is_together in [false, true] {
        let guard = lock(&one, "ledger").await;
        let undone = "select setval('leasehold.token', 1); delete from leasehold.claim";
        fail_over(&server, undone);
        // No renewal and no new session comes before it.
        let token = match is_together {
            false => lock(&other, "ledger").await.token(),
            true => {
                let locks = other.lock_all(["ledger", "log"]).lock().await.unwrap();
                locks.iter().map(leasehold::Guard::token).min().unwrap()
            }
        };
        assert!(token > guard.token(), "{token} {}", guard.token());
    }
}

#[testbed::test]
async fn a_lease_whose_last_renewals_are_forgotten_is_not_taken_over() {
    let server = postgres();
    let [one, other] = server.sessions("ttl=1h").await;
    let guard = lock(&one, "ledger").await;
    // Only the holder's: whoever asks next neither opens nor renews before.
    let late = "update leasehold.session set expires = clock_timestamp() - interval '1 s' \
                where id in (select session from leasehold.claim)";
    fail_over(&server, late);
    assert!(other.mutex("ledger").try_lock().await.unwrap().is_none());
    guard.check().unwrap();
    guard.release().await.unwrap();
    // A lease that ended for good stays so.
    let _guard = lock(&one, "ledger").await;
    fail_over(
        &server,
        "update leasehold.session set expires = '-infinity'",
    );
    let third = server.session("ttl=1h").await;
    let again = third.mutex("ledger").try_lock().await.unwrap();
    assert!(again.is_some());
}

#[testbed::test]
async fn a_release_that_a_failover_forgot_is_made_again() {
    let mut server = postgres_with(&[]);
    let [one, other] = server.sessions("ttl=20s").await;
    let kept = lock(&one, "kept").await;
    let guard = lock(&one, "ledger").await;
    server.sql("create table forgotten as select * from leasehold.claim where name = 'ledger'");
    guard.release().await.unwrap();
    server.sql("insert into leasehold.claim select * from forgotten");
    // It comes back as another one.
    server.restart();
    // Long before any lease ends.
    let within = std::time::Duration::from_secs(10);
    let again = other.mutex("ledger").lock_within(within).await.unwrap();
    kept.check().unwrap();
    again.release().await.unwrap();
}

#[testbed::test]
async fn a_failover_lifts_the_counter_and_verifies_what_is_held() {
    let server = postgres();
    let one = server.session("ttl=3s").await;
    let guard = lock(&one, "ledger").await;
    // As it looks after a failover to a standby which had not got everything.
    server.sql("update leasehold.meta set server = 'another 00000001'");
    server.sql("select setval('leasehold.token', 1)");
    server.sql("delete from leasehold.claim");
    server.end_connections();
    assert_eq!(lost(&guard).await, Lost::Gone);
    let again = lock(&one, "ledger").await;
    assert!(again.token() > guard.token());
}
