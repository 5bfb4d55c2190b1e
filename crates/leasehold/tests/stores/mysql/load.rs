//! Many clients on many names: nothing deadlocks.

use std::time::{Duration, Instant};

use super::{LONG, mysql, session};

async fn many_clients_on_many_names(lasting: Duration) {
    let (_folder, server) = mysql(&["innodb-print-all-deadlocks=1"]);
    let until = Instant::now() + lasting;
    let mut clients = Vec::new();
    for client in 0..12_u64 {
        let session = session(&server.url(), "ttl=30s&connections=4").await;
        clients.push(tokio::spawn(async move {
            let mut random = client * 7919 + 1;
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
            session.close().await;
            rounds
        }));
    }
    let mut rounds = 0;
    for client in clients {
        rounds += client.await.unwrap();
    }
    println!("{rounds} rounds");
    let log = std::fs::read_to_string(server.data().join("log")).unwrap();
    let told = log.split_once("deadlock").map(|(_, told)| told);
    assert_eq!(told, None);
    let left = "select count(*) from leasehold_claim where ticket is not null";
    assert_eq!(server.sql(left), "0");
}

#[testbed::test]
async fn twelve_clients_on_two_hundred_names_do_not_deadlock() {
    many_clients_on_many_names(Duration::from_secs(3)).await;
}

#[testbed::test(all)]
async fn twelve_clients_on_two_hundred_names_do_not_deadlock_in_a_minute() {
    many_clients_on_many_names(Duration::from_secs(60)).await;
}
