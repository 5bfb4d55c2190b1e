//! Asking twice is asking once, also after a call that nobody waited for.

use super::*;
use crate::engine::Inspect;

#[tokio::test]
async fn a_ticket_enqueued_twice_is_one_claim() {
    let bench = Bench::new();
    let party = bench.party().await;
    let ticket = party.ticket("a");
    let first = party.lock(&ticket).await.unwrap();
    assert_eq!(party.lock(&ticket).await, Some(first));
    let queue = party.engine.queue(&ticket.claim.name).await.unwrap();
    assert_eq!(queue.claims.len(), 1);
    assert_eq!(party.release(&ticket).await, Withdrawn::Removed);
    assert_eq!(party.release(&ticket).await, Withdrawn::Absent);
}

#[tokio::test]
async fn a_late_release_does_not_touch_the_next_claim_of_the_same_session() {
    let bench = Bench::new();
    let party = bench.party().await;
    let (first, second) = (party.ticket("a"), party.ticket("a"));
    party.lock(&first).await.unwrap();
    party.release(&first).await;
    party.lock(&second).await.unwrap();
    assert_eq!(party.release(&first).await, Withdrawn::Absent);
    assert_eq!(party.release(&second).await, Withdrawn::Removed);
}

#[tokio::test]
async fn a_busy_database_is_waited_for() {
    let bench = Bench::new();
    let party = bench.party().await;
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let ticket = party.ticket("a");
    let enqueue = party.engine.enqueue(&ticket);
    let freeing = async {
        tokio::task::yield_now().await;
        other.execute_batch("commit").unwrap();
    };
    let (standing, ()) = tokio::join!(enqueue, freeing);
    token(standing.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_that_nobody_waited_for_can_be_withdrawn() {
    let bench = Bench::new();
    let party = bench.party().await;
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let ticket = party.ticket("a");
    let enqueue = party.engine.enqueue(&ticket);
    // It is under way in a thread when the time is up.
    let outcome = tokio::time::timeout(Duration::from_millis(30), enqueue).await;
    assert!(outcome.is_err(), "the database is busy");
    other.execute_batch("commit").unwrap();
    // The thread may still be trying. It must not bring the claim back.
    party.release(&ticket).await;
    let next = party.ticket("a");
    assert!(party.lock(&next).await.is_some());
    tokio::time::sleep(Duration::from_millis(30)).await;
    let queue = party.engine.queue(&next.claim.name).await.unwrap();
    assert_eq!(queue.claims.len(), 1);
}

/// The thread that enqueues may be in the middle of it when the caller gives up.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_of_an_enqueue_that_nobody_waited_for() {
    let bench = Bench::new();
    let (holder, party) = (bench.party().await, bench.party().await);
    holder.lock(&holder.ticket("a")).await.unwrap();
    let store = party.engine.store();
    for round in 0..200 {
        let ticket = party.ticket("a");
        let other = rusqlite::Connection::open(bench.path()).unwrap();
        other.execute_batch("begin immediate").unwrap();
        let freeing = std::thread::spawn(move || other.execute_batch("commit").unwrap());
        let moment = Duration::from_micros(20 * round);
        let _ = tokio::time::timeout(moment, party.engine.enqueue(&ticket)).await;
        party.release(&ticket).await;
        freeing.join().unwrap();
    }
    assert_eq!(store.ours.waits_count(), 0);
}

#[tokio::test]
async fn a_loop_that_never_has_to_wait_lets_other_tasks_run() {
    let bench = Bench::new();
    let party = bench.party().await;
    let other = tokio::spawn(async {});
    for _ in 0..1000 {
        let ticket = party.ticket("a");
        party.lock(&ticket).await.unwrap();
        party.release(&ticket).await;
    }
    assert!(other.is_finished(), "it never had its turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_and_engines_exclude_each_other() {
    let bench = Bench::new();
    let counter = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let party = std::sync::Arc::new(bench.party().await);
        for _ in 0..3 {
            let (party, counter) = (party.clone(), counter.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    let ticket = party.ticket("a");
                    if party.lock(&ticket).await.is_none() {
                        token(party.wait(&ticket).await);
                    }
                    let inside = counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(inside, 0, "two hold at once");
                    tokio::task::yield_now().await;
                    counter.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    party.release(&ticket).await;
                }
            }));
        }
    }
    for task in tasks {
        tokio::time::timeout(DEADLINE, task).await.unwrap().unwrap();
    }
}
