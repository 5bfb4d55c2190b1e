//! Many clients on many names: nothing deadlocks.

use std::time::{Duration, Instant};

use leasehold::Session;
use testbed::times;

use super::Kind;
use crate::steps::{LONG, lock};

cases! {
    twelve_clients_on_two_hundred_names_do_not_deadlock,
    sessions_whose_tasks_ask_together_do_not_deadlock,
}

async fn twelve_clients_on_two_hundred_names_do_not_deadlock(kind: Kind) {
    many_clients_on_many_names(kind, times(3, 60), 12, 1).await;
}

async fn sessions_whose_tasks_ask_together_do_not_deadlock(kind: Kind) {
    many_clients_on_many_names(kind, 3, 4, 16).await;
}

async fn many_clients_on_many_names(kind: Kind, seconds: usize, sessions: usize, tasks: usize) {
    let site = kind.alone(&[kind.pick("log_min_messages=error", "innodb-print-all-deadlocks=1")]);
    let mut opened = Vec::new();
    for _ in 0..sessions {
        opened.push(site.session("ttl=30s&connections=4").await);
    }
    // When several sessions insert the row of a new name at once, InnoDB may undo one of
    // them. The engine asks again, and no caller sees an error. Locks that have their rows
    // deadlock no more.
    if kind != Kind::Postgres {
        use_all(&opened[..4]).await;
    }
    let before = kind.pick(0, site.log().len());
    let until = Instant::now() + Duration::from_secs(seconds as u64);
    let mut clients = Vec::new();
    for (client, session) in opened.iter().cycle().take(sessions * tasks).enumerate() {
        clients.push(tokio::spawn(work(session.clone(), client as u64, until)));
    }
    let mut rounds = 0;
    for client in clients {
        rounds += client.await.unwrap();
    }
    println!("{rounds} rounds");
    for session in opened {
        session.close().await;
    }
    let log = &site.log()[before..];
    let wrong = kind.pick("ERROR", "deadlock");
    // With all that the server says of it.
    assert_eq!(log.find(wrong).map(|at| &log[at..]), None);
    if kind == Kind::Postgres {
        let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
        assert_eq!(site.sql(deadlocks), "0");
    }
    let left = "select count(*) from leasehold.claim where ticket is not null";
    assert_eq!(site.sql(left), "0");
}

/// Each of them takes and gives back every lock, in the same order.
async fn use_all(sessions: &[Session]) {
    let using = sessions.iter().cloned().map(|session| async move {
        for number in 0..200 {
            let guard = lock(&session, &format!("name/{number}")).await;
            guard.release().await.unwrap();
        }
    });
    for using in using.map(tokio::spawn).collect::<Vec<_>>() {
        using.await.unwrap();
    }
}

/// Takes and gives back locks of any names until then, and says how often.
async fn work(session: Session, client: u64, until: Instant) -> u32 {
    let mut random = client * 7919 + 1;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let mut rounds = 0;
    while Instant::now() < until {
        rounds += 1;
        let name = format!("name/{}", next(200));
        match next(4) {
            0 => {
                let names = (0..3).map(|_| format!("name/{}", next(200)));
                let locks = session.lock_all(names.collect::<Vec<_>>());
                drop(locks.lock_within(LONG).await.unwrap());
            }
            1 => drop(session.mutex(&name).try_lock().await.unwrap()),
            _ => lock(&session, &name).await.release().await.unwrap(),
        }
    }
    rounds
}
