//! Many tasks of a session on names of their own: their requests go together, and
//! nobody is the worse for it.

use std::time::Duration;

use leasehold::mysql::MySqlPool;
use leasehold::{Guard, Session};
use sqlx_core::executor::Executor;

use super::server::Mysql;
use super::way::{Fault, Way};
use super::{LONG, heard, inspector, lock, mysql, queue_of, session};

/// A part of the statement that several go with.
const TOGETHER: &str = "Gives back and takes first seats";

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("job {number}")).collect()
}

/// Locks that were used before, so that each is one row that is free.
async fn use_all(session: &Session, names: &[String]) {
    for name in names {
        lock(session, name).await.release().await.unwrap();
    }
}

async fn lock_all_at_once(session: &Session, names: &[String]) -> Vec<Guard> {
    let locking = |name: &String| {
        let mutex = session.mutex(name.clone());
        tokio::spawn(async move { mutex.lock_within(LONG).await.unwrap() })
    };
    let locking: Vec<_> = names.iter().map(locking).collect();
    let mut guards = Vec::new();
    for one in locking {
        guards.push(heard(one).await);
    }
    guards
}

async fn release_all_at_once(guards: Vec<Guard>) {
    let releasing = |guard: Guard| tokio::spawn(guard.release());
    let releasing: Vec<_> = guards.into_iter().map(releasing).collect();
    for one in releasing {
        heard(one).await.unwrap();
    }
}

/// How many statements of these kinds the server has carried out.
fn statements(server: &Mysql, kinds: &str) -> u64 {
    let query = format!(
        "select cast(sum(variable_value) as unsigned) from information_schema.global_status \
         where variable_name in ({kinds})"
    );
    server.sql(&query).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_go_as_few_statements() {
    let Some((_folder, server)) = mysql(&[]) else {
        return;
    };
    let one = session(&server.url(), "ttl=1h").await;
    let names = names(64);
    use_all(&one, &names).await;
    let writing = "'COM_UPDATE', 'COM_INSERT_SELECT'";
    let before = statements(&server, writing);
    for _ in 0..5 {
        let guards = lock_all_at_once(&one, &names).await;
        release_all_at_once(guards).await;
    }
    let count = statements(&server, writing) - before;
    // One by one it would be 640.
    assert!(count < 320, "{count} statements");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_keeps_holds_up_none_of_those_who_go_along() {
    let Some((_folder, server)) = mysql(&[]) else {
        return;
    };
    let one = session(&server.url(), "ttl=1h").await;
    let names = names(40);
    use_all(&one, &names).await;
    let others = MySqlPool::connect(&server.url()).await.unwrap();
    let mut blocker = others.begin().await.unwrap();
    (&mut *blocker)
        .execute("select * from leasehold_claim where name = 'job 0' and seat = 0 for update")
        .await
        .unwrap();
    let stuck = one.mutex("job 0");
    let stuck = tokio::spawn(async move { stuck.lock_within(LONG).await.unwrap() });
    // Well before the server gives up on a row that is locked.
    let brief = Duration::from_millis(1500);
    let others = lock_all_at_once(&one, &names[1..]);
    let others = tokio::time::timeout(brief, others).await.unwrap();
    assert!(!stuck.is_finished());
    blocker.rollback().await.unwrap();
    release_all_at_once(others).await;
    heard(stuck).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_went_together_and_lost_something_have_one_claim_each() {
    let Some((_folder, server)) = mysql(&[]) else {
        return;
    };
    let way = Way::to(server.port).await;
    let far = session(&way.url(), "ttl=1h&ssl-mode=disabled").await;
    let names = names(48);
    use_all(&far, &names).await;
    let inspector = inspector(&server.url()).await;
    let taken = "select count(*), count(distinct name), count(distinct ticket) \
                 from leasehold_claim where ticket is not null";
    for fault in [Fault::RequestLost, Fault::AnswerLost, Fault::Silence] {
        way.arm(TOGETHER, fault);
        let guards = lock_all_at_once(&far, &names).await;
        way.fired().await;
        assert_eq!(server.sql(taken), "48\t48\t48", "{fault:?}");
        for guard in &guards {
            let place = format!(
                "select place from leasehold_claim where ticket is not null and name = '{}'",
                guard.name()
            );
            let place: u64 = server.sql(&place).parse().unwrap();
            assert_eq!(guard.token().get(), place, "{fault:?}");
        }
        way.arm(TOGETHER, fault);
        release_all_at_once(guards).await;
        way.fired().await;
        for name in &names {
            queue_of(&inspector, name, 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_one_name_that_ask_at_once_are_all_let_in() {
    let Some((_folder, server)) = mysql(&[]) else {
        return;
    };
    let one = session(&server.url(), "ttl=1h").await;
    let lock = one.rwlock("prices");
    drop(lock.read().await.unwrap());
    let reading = |_| {
        let lock = one.rwlock("prices");
        tokio::spawn(async move { lock.read().await.unwrap() })
    };
    let mut readers = Vec::new();
    for reader in (0..40).map(reading).collect::<Vec<_>>() {
        readers.push(heard(reader).await);
    }
    queue_of(&inspector(&server.url()).await, "prices", 40).await;
    release_all_at_once(readers).await;
    queue_of(&inspector(&server.url()).await, "prices", 0).await;
}
