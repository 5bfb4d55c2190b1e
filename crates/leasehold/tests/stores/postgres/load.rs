//! Many clients on many names: nothing deadlocks.

use std::time::{Duration, Instant};

use super::{LONG, postgres, session};

async fn many_clients_on_many_names(lasting: Duration, sessions: u64, tasks_of_each: u64) {
    let (_folder, server) = postgres(&["log_min_messages=error"]);
    let until = Instant::now() + lasting;
    let mut clients = Vec::new();
    let mut opened = Vec::new();
    for _ in 0..sessions {
        opened.push(session(&server.url(), "ttl=30s&connections=4").await);
    }
    for (client, session) in (0..tasks_of_each)
        .flat_map(|_| &opened)
        .cloned()
        .enumerate()
    {
        clients.push(tokio::spawn(async move {
            let mut random = client as u64 * 7919 + 1;
            let mut next = |below: u64| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 33) % below
            };
            let mut rounds = 0_u32;
            while Instant::now() < until {
                rounds += 1;
                let name = format!("name/{}", next(200));
                match next(4) {
                    0 => {
                        let names = (0..3).map(|_| format!("name/{}", next(200)));
                        let names: Vec<_> = names.collect();
                        let locks = session.lock_all(&names);
                        drop(locks.lock_within(LONG).await.unwrap());
                    }
                    1 => drop(session.mutex(&name).try_lock().await.unwrap()),
                    _ => {
                        let guard = session.mutex(&name).lock_within(LONG).await.unwrap();
                        guard.release().await.unwrap();
                    }
                }
            }
            rounds
        }));
    }
    let mut rounds = 0;
    for client in clients {
        rounds += client.await.unwrap();
    }
    println!("{rounds} rounds");
    for session in opened {
        session.close().await;
    }
    let deadlocks = "select deadlocks from pg_stat_database where datname = 'postgres'";
    assert_eq!(server.sql(deadlocks), "0");
    let log = std::fs::read_to_string(server.data().join("log")).unwrap();
    let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(server.sql("select count(*) from leasehold.claim"), "0");
}

#[testbed::test]
async fn twelve_clients_on_two_hundred_names_do_not_deadlock() {
    many_clients_on_many_names(Duration::from_secs(3), 12, 1).await;
}

#[testbed::test]
async fn sessions_whose_tasks_ask_together_do_not_deadlock() {
    many_clients_on_many_names(Duration::from_secs(3), 4, 16).await;
}

#[testbed::test(all)]
async fn twelve_clients_on_two_hundred_names_do_not_deadlock_in_a_minute() {
    many_clients_on_many_names(Duration::from_secs(60), 12, 1).await;
}
