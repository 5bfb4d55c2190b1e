//! `queue()` shows holders and waiters as the rule has them.

use std::time::Duration;

use super::bench::{Bench, until};
use super::{Case, fair, nothing, rwlock};
use crate::deadlock;
use crate::rule::UNBOUNDED;

const TTL: Duration = Duration::from_secs(30);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[23], nothing, a_queue_shows_owner_age_token_and_time_left),
        Case::new(
            &[23],
            rwlock,
            a_queue_shows_holders_first_and_then_those_who_wait,
        ),
        Case::new(&[23], fair, a_queue_shows_which_claims_are_of_one_session),
        Case::new(&[23], nothing, a_lock_that_nobody_uses_is_not_listed),
        Case::new(&[23], nothing, looking_changes_nothing),
    ]
}

async fn a_queue_shows_owner_age_token_and_time_left(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    let claim = &bench.queue(&name).await.claims[0];
    assert!(claim.is_holder);
    assert_eq!(claim.weight, 1);
    assert_eq!(claim.token, Some(guard.token()));
    assert_eq!(claim.holder, guard.fence().holder);
    assert_eq!(claim.owner.pid(), std::process::id());
    assert_eq!(claim.owner.host(), session.owner().host());
    assert!(
        claim.time_left <= TTL && claim.time_left > Duration::ZERO,
        "{:?}",
        claim.time_left
    );
    let before = claim.age;
    until("the claim grows older", || async {
        bench.queue(&name).await.claims[0].age > before
    })
    .await;
}

async fn a_queue_shows_holders_first_and_then_those_who_wait(bench: Bench) {
    let name = bench.name();
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(bench.session(TTL).await);
    }
    let mut tasks = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let lock = session.rwlock(&name);
        tasks.push(tokio::spawn(async move {
            let guard = if number == 2 {
                lock.write().await
            } else {
                lock.read().await
            };
            let _guard = guard.unwrap();
            std::future::pending::<()>().await;
        }));
        bench.queue_of(&name, number + 1).await;
    }
    let queue = bench.queue(&name).await;
    assert_eq!(queue.capacity, UNBOUNDED);
    let shown: Vec<_> = queue
        .claims
        .iter()
        .map(|claim| (claim.is_holder, claim.weight))
        .collect();
    let (reads, writes) = (1, UNBOUNDED);
    let expected = [
        (true, reads),
        (true, reads),
        (false, writes),
        (false, reads),
        (false, reads),
    ];
    assert_eq!(shown, expected);
    assert!(
        queue
            .claims
            .iter()
            .all(|claim| claim.token.is_some() == claim.is_holder)
    );
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    bench.queue_of(&name, 0).await;
}

async fn a_queue_shows_which_claims_are_of_one_session(bench: Bench) {
    let (one, two) = (bench.session(TTL).await, bench.session(TTL).await);
    let (name, other) = (bench.name(), bench.name());
    let _held = one.mutex(&name).lock().await.unwrap();
    let _also_held = two.mutex(&other).lock().await.unwrap();
    let wait = |lock: crate::Mutex| tokio::spawn(async move { drop(lock.lock().await) });
    let tasks = [wait(two.mutex(&name)), wait(one.mutex(&other))];
    bench.queue_of(&name, 2).await;
    bench.queue_of(&other, 2).await;
    let inspector = bench.inspector();
    let locks = inspector.locks("case/").await.unwrap();
    let sessions: Vec<_> = locks
        .iter()
        .flat_map(|lock| lock.queue.claims.iter().map(|claim| claim.session))
        .collect();
    assert!(sessions.iter().all(Option::is_some), "{sessions:?}");
    let [a, b, c, d] = sessions[..] else {
        panic!("{sessions:?}");
    };
    assert!(a != b && a == d && b == c, "{sessions:?}");
    let later = inspector.locks("case/").await.unwrap();
    let cycles = deadlock::cycles(&deadlock::standing(&locks, &later));
    let [cycle] = &cycles[..] else {
        panic!("{cycles:?}");
    };
    assert_eq!(cycle.waits().len(), 2);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn a_lock_that_nobody_uses_is_not_listed(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let inspector = bench.inspector();
    let guard = session.mutex(&name).lock().await.unwrap();
    assert_eq!(inspector.names("case/").await.unwrap().len(), 1);
    guard.release().await.unwrap();
    assert!(inspector.names("case/").await.unwrap().is_empty());
    let queue = bench.queue(&name).await;
    assert_eq!((queue.capacity, queue.claims.len()), (0, 0));
}

async fn looking_changes_nothing(bench: Bench) {
    let inspector = bench.inspector();
    let name = bench.name();
    bench.queue(&name).await;
    inspector.examine().await.unwrap();
    assert!(inspector.names("").await.unwrap().is_empty());
}
