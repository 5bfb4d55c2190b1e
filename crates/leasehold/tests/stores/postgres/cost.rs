//! What requests cost the server.

use std::collections::HashSet;

use futures_util::future::join_all;
use leasehold::Guard;

use super::{LONG, Site, heard, lock, postgres, postgres_with, queue_of, wait_for_lock};

/// What dies in a table that is small when a plan is made is in the way of every request
/// that reads it as a whole.
#[testbed::test]
async fn no_lock_is_found_by_reading_the_whole_table() {
    let server = postgres_with(&["autovacuum=off"]);
    // The server counts what it has told others of when a connection ends.
    let are_gone = || {
        testbed::wait_for("the counts", || {
            let backends =
                "select count(*) from pg_stat_activity where application_name = 'leasehold'";
            (server.sql(backends) == "0").then_some(())
        });
    };
    let scans = |kind: &str| {
        let count = format!("select {kind} from pg_stat_user_tables where relname = 'claim'");
        server.sql(&count).parse::<u64>().unwrap()
    };
    server.session("ttl=1h").await.close().await;
    are_gone();
    // Now it knows that nothing is in it.
    server.sql("vacuum analyze leasehold.claim");
    let before = [scans("seq_scan"), scans("idx_scan")];
    let [one, other] = server.sessions("ttl=1h").await;
    for _ in 0..20 {
        let guard = lock(&one, "ledger").await;
        assert!(other.mutex("ledger").try_lock().await.unwrap().is_none());
        let waiting = wait_for_lock(&other, "ledger");
        let queue = "select count(*) from leasehold.claim where name = 'ledger' and place > 0";
        testbed::wait_for("a queue", || {
            let with_index = format!("set enable_seqscan = off; {queue}");
            server.sql(&with_index).ends_with('2').then_some(())
        });
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
    }
    one.close().await;
    other.close().await;
    are_gone();
    let more = [scans("seq_scan") - before[0], scans("idx_scan") - before[1]];
    assert_eq!(more[0], 0);
    assert!(more[1] >= 20 * 4, "{more:?}");
}

#[testbed::test]
async fn a_hand_over_is_two_statements_and_a_session_few_connections() {
    let server = postgres_with(&["track_functions=pl"]);
    let [one, other] = server.sessions("ttl=1h").await;
    let inspector = server.inspector().await;
    // The server counts what it has told others of; it does so late.
    let calls = |function: &str| {
        server.sql("select pg_stat_force_next_flush()");
        let count = server.sql(&format!(
            "select coalesce(sum(calls), 0) from pg_stat_user_functions \
             where funcname = '{function}'"
        ));
        count.parse::<u64>().unwrap()
    };
    let rounds = 20;
    for _ in 0..rounds {
        let guard = lock(&one, "ledger").await;
        let waiting = wait_for_lock(&other, "ledger");
        queue_of(&inspector, "ledger", 2).await;
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
    }
    one.close().await;
    other.close().await;
    drop(inspector);
    testbed::wait_for("the counts", || {
        let backends = "select count(*) from pg_stat_activity where application_name = 'leasehold'";
        (server.sql(backends) == "0").then_some(())
    });
    // Two grants each round, and what two sessions warm up when they open.
    assert_eq!(calls("enqueue"), 2 * rounds + 4);
    assert_eq!(calls("withdraw"), 2 * rounds + 4);
    assert_eq!(calls("take_over"), 0);
}

/// Requests of ours that the server has seen, of those that are about claims.
fn statements(server: &Site) -> usize {
    let log = server.log();
    let is_ours = |line: &&str| {
        let functions = ["enqueue(", "withdraw(", "look(", "take_over("];
        line.contains("statement: ") && functions.iter().any(|name| line.contains(name))
    };
    log.lines().filter(is_ours).count()
}

#[testbed::test]
async fn eight_that_hand_a_lock_around_make_two_statements_for_each_grant() {
    let server = postgres_with(&["log_statement=all"]);
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(server.session("ttl=1h").await);
    }
    let before = statements(&server);
    let grants = 40;
    let running = sessions.iter().map(|session| {
        let mutex = session.mutex("ledger");
        tokio::spawn(async move {
            for _ in 0..grants {
                let guard = mutex.lock_within(LONG).await.unwrap();
                guard.release().await.unwrap();
            }
        })
    });
    for one in running.collect::<Vec<_>>() {
        heard(one).await;
    }
    let (made, grants) = (statements(&server) - before, 8 * grants);
    assert!(made >= 2 * grants, "all are seen: {made} for {grants}");
    assert!(made * 10 <= grants * 22, "{made} for {grants} grants");
}

#[testbed::test]
async fn many_locks_are_renewed_a_thousand_at_a_time() {
    let server = postgres_with(&["log_statement=all"]);
    // No renewal is due while this test runs, but for those that it asks for.
    let one = server.session("ttl=1h").await;
    let mut guards = Vec::new();
    for part in 0..200 {
        let names = (0..50).map(|number| format!("many/{part}/{number}"));
        let locks = one.lock_all(names).lock_within(LONG).await.unwrap();
        guards.push(locks);
    }
    let connections =
        server.sql("select count(*) from pg_stat_activity where application_name = 'leasehold'");
    assert!(connections.parse::<u32>().unwrap() <= 10, "{connections}");
    // A broken connection asks for a round of renewals. One that hears nothing for a while
    // asks the server whether it is there.
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
         where application_name = 'leasehold' \
         and (query ilike 'listen%' or query = 'select 1')";
    testbed::wait_for("a connection that listens", || {
        (server.sql(end) != "0").then_some(())
    });
    let log = testbed::wait_for("a round", || {
        let log = server.log();
        (log.lines().filter(|line| is_renewal(line)).count() >= 10).then_some(log)
    });
    // Ten statements ask after all ten thousand.
    let round = log.lines().filter(|line| is_renewal(line)).take(10);
    let names = round.flat_map(|line| line.split('\'').filter(|part| part.starts_with("many/")));
    assert_eq!(names.collect::<HashSet<_>>().len(), 10_000);
    for guards in &guards {
        guards.check().unwrap();
    }
}

fn is_renewal(line: &str) -> bool {
    line.contains("statement: ") && line.contains(".renew(")
}

#[testbed::test]
async fn what_is_asked_at_the_same_time_is_committed_together() {
    let server = postgres();
    let session = server.session("ttl=1h&connections=1").await;
    let name = |task: usize| format!("ledger/{task}");
    let mut fewest = usize::MAX;
    for _ in 0..5 {
        // The first is on its way over the only connection when the others ask.
        let taking = (0..16).map(|task| session.mutex(name(task)));
        let taking = taking.map(|mutex| async move { mutex.lock_within(LONG).await.unwrap() });
        let guards = join_all(taking).await;
        // Rows of one transaction have the same number.
        let transactions = server.sql("select count(distinct xmin::text) from leasehold.claim");
        fewest = fewest.min(transactions.parse().unwrap());
        assert_eq!(server.sql("select count(*) from leasehold.claim"), "16");
        let tokens: HashSet<_> = guards.iter().map(Guard::token).collect();
        assert_eq!(tokens.len(), 16);
        for released in join_all(guards.into_iter().map(Guard::release)).await {
            released.unwrap();
        }
        assert_eq!(server.sql("select count(*) from leasehold.claim"), "0");
    }
    // A busy machine may let the others ask one after the other, but not each time.
    assert!(fewest <= 3, "{fewest}");
}

#[testbed::test]
async fn whoever_asks_for_a_name_that_is_in_use_holds_up_no_other() {
    let server = postgres_with(&[]);
    let session = server.session("ttl=1h&connections=2").await;
    let server = std::sync::Arc::new(server);
    // Somebody is at its queue and does not get on.
    let hot = "hashtextextended('hot', 7809639172)";
    let get_stuck = format!("select pg_advisory_lock({hot}), pg_sleep(600)");
    let stuck = std::thread::spawn({
        let server = server.clone();
        move || server.postgres().try_sql(&get_stuck)
    });
    let at_it = "select count(*) from pg_locks where locktype = 'advisory' and granted";
    testbed::wait_for("the lock", || (server.sql(at_it) != "0").then_some(()));
    let hot = tokio::spawn({
        let mutex = session.mutex("hot");
        async move { mutex.lock_within(LONG).await.unwrap() }
    });
    let tasks = (0..15).map(|task| {
        let mutex = session.mutex(format!("ledger/{task}"));
        tokio::spawn(async move {
            for _ in 0..5 {
                let guard = mutex.lock_within(LONG).await.unwrap();
                guard.release().await.unwrap();
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    assert!(!hot.is_finished());
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where query like '%sleep(600)%' \
               and pid <> pg_backend_pid()";
    server.sql(end);
    let guard = tokio::time::timeout(LONG, hot).await.unwrap().unwrap();
    guard.release().await.unwrap();
    let _ = stuck.join();
}
