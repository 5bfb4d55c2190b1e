//! Requests on many locks that go to a Redis server together.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use leasehold::{ErrorKind, Guard, Lost, Mutex, Session};
use tokio::task::{JoinSet, unconstrained};

use crate::LONG;
use crate::pools::REDIS;
use testbed::redis::RedisServer;

const MANY: usize = 200;

async fn session(server: &RedisServer) -> Session {
    let url = format!("{}?ttl=20s", server.url());
    leasehold::connect(&url).await.unwrap()
}

fn mutexes(session: &Session, count: usize) -> Vec<Mutex> {
    let name = |number| format!("job/{number}");
    (0..count)
        .map(|number| session.mutex(name(number)))
        .collect()
}

async fn lock_all(mutexes: &[Mutex]) -> Vec<leasehold::Result<Guard>> {
    let locking = join_all(mutexes.iter().map(|mutex| mutex.lock_within(LONG)));
    locking.await
}

/// Scripts that the server has run. It counts what they call as commands, too.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.tell("INFO commandstats");
    let mut lines = stats.lines();
    let calls = lines.find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let calls = calls.and_then(|calls| calls.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

async fn nothing_is_left(session: &Session) {
    let inspector = session.inspector();
    let emptied = async {
        while !inspector.locks("").await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, emptied).await.unwrap();
}

#[testbed::test]
async fn free_locks_that_are_asked_for_together_are_few_commands() {
    let server = REDIS.take();
    let ours = session(&server).await;
    let mutexes = mutexes(&ours, MANY);
    // The server does not answer before all have been asked for.
    let before = scripts_run(&server);
    server.stop();
    let mut locking = Box::pin(lock_all(&mutexes));
    assert!(unconstrained(&mut locking).now_or_never().is_none());
    server.resume();
    let guards: Vec<_> = locking.await.into_iter().map(Result::unwrap).collect();
    for guard in &guards {
        guard.check().unwrap();
    }
    server.stop();
    let mut releasing = Box::pin(join_all(guards.into_iter().map(Guard::release)));
    assert!(unconstrained(&mut releasing).now_or_never().is_none());
    server.resume();
    releasing.await.into_iter().for_each(Result::unwrap);
    let spent = scripts_run(&server) - before;
    assert!(
        spent < MANY as u64 / 8,
        "{spent} scripts for {MANY} locks and releases"
    );
    nothing_is_left(&ours).await;
}

#[testbed::test]
async fn a_lock_that_another_has_is_waited_for_and_the_others_are_had() {
    let server = REDIS.take();
    let (ours, other) = (session(&server).await, session(&server).await);
    let held = other.mutex("job/7").lock().await.unwrap();
    let mutexes = mutexes(&ours, 20);
    let asking: Vec<_> = mutexes
        .iter()
        .map(|mutex| {
            tokio::spawn({
                let mutex = mutex.clone();
                async move { mutex.lock_within(LONG).await.unwrap() }
            })
        })
        .collect();
    let mut guards = Vec::new();
    let mut last = None;
    for (number, asking) in asking.into_iter().enumerate() {
        if number == 7 {
            last = Some(asking);
        } else {
            guards.push(asking.await.unwrap());
        }
    }
    let last = last.unwrap();
    assert!(!last.is_finished());
    let token = held.token();
    held.release().await.unwrap();
    let next = last.await.unwrap();
    assert!(next.token() > token);
    drop((guards, next));
    nothing_is_left(&ours).await;
}

#[testbed::test]
async fn what_is_wrong_with_one_is_told_to_its_caller_alone() {
    let server = REDIS.take();
    let ours = session(&server).await;
    server.tell("SET lh:{job/7} theirs");
    for (number, locked) in lock_all(&mutexes(&ours, 20)).await.into_iter().enumerate() {
        match number {
            7 => assert_eq!(locked.unwrap_err().kind(), ErrorKind::Config),
            _ => locked.unwrap().release().await.unwrap(),
        }
    }
}

#[testbed::test]
async fn whoever_gives_up_before_it_is_sent_leaves_nothing() {
    let server = REDIS.take();
    let ours = session(&server).await;
    let mutexes = mutexes(&ours, 20);
    server.stop();
    let mut asking: Vec<_> = mutexes.iter().map(|mutex| Box::pin(mutex.lock())).collect();
    for locking in &mut asking {
        assert!(unconstrained(locking).now_or_never().is_none());
    }
    // Some of those that are on their way and of those that are not.
    let kept: Vec<_> = asking.into_iter().step_by(2).collect();
    server.resume();
    let guards = join_all(kept).await;
    assert_eq!(guards.len(), 10);
    let other = session(&server).await;
    for number in (1..20).step_by(2) {
        let free = other
            .mutex(format!("job/{number}"))
            .lock_within(LONG / 6)
            .await;
        free.unwrap().release().await.unwrap();
    }
    for guard in guards {
        guard.unwrap().release().await.unwrap();
    }
    nothing_is_left(&ours).await;
}

#[testbed::test]
async fn a_task_that_looks_elsewhere_holds_up_nobody() {
    let server = REDIS.take();
    let ours = session(&server).await;
    let mutexes = mutexes(&ours, 20);
    server.stop();
    let mut asking: Vec<_> = mutexes.iter().map(|mutex| Box::pin(mutex.lock())).collect();
    for locking in &mut asking {
        assert!(unconstrained(locking).now_or_never().is_none());
    }
    server.resume();
    // Only the last one goes on.
    let last = asking.pop().unwrap();
    let guard = tokio::time::timeout(LONG, last).await.unwrap().unwrap();
    guard.release().await.unwrap();
    for locking in asking {
        locking.await.unwrap().release().await.unwrap();
    }
}

#[testbed::test]
async fn scripts_that_the_server_forgot_are_taught_again() {
    let server = REDIS.take();
    let ours = session(&server).await;
    for _ in 0..3 {
        server.tell("SCRIPT FLUSH");
        let guards = lock_all(&mutexes(&ours, 20)).await;
        server.tell("SCRIPT FLUSH");
        let releasing = guards.into_iter().map(|guard| guard.unwrap().release());
        join_all(releasing)
            .await
            .into_iter()
            .for_each(Result::unwrap);
    }
    nothing_is_left(&ours).await;
}

#[testbed::test]
async fn a_session_that_closes_leaves_nothing_that_is_still_on_its_way() {
    let server = REDIS.take();
    let (ours, other) = (session(&server).await, session(&server).await);
    let mutexes = mutexes(&ours, MANY);
    server.stop();
    let mut asking: Vec<_> = mutexes.iter().map(|mutex| Box::pin(mutex.lock())).collect();
    for locking in &mut asking {
        assert!(unconstrained(locking).now_or_never().is_none());
    }
    let closing = tokio::spawn(async move { ours.close().await });
    server.resume();
    tokio::time::timeout(LONG, closing).await.unwrap().unwrap();
    let left = other.inspector().locks("job/").await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    // Those who ask now find the session closed, and ask for nothing.
    for locked in join_all(asking).await {
        match locked {
            // Granted before the end, which came before anybody looked.
            Ok(guard) => assert_eq!(guard.lost().await, Lost::Closed),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
    }
    let left = other.inspector().locks("job/").await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[testbed::test]
async fn units_of_a_semaphore_go_in_the_order_in_which_they_were_asked_for() {
    let server = REDIS.take();
    let (ours, other) = (session(&server).await, session(&server).await);
    let all = other.semaphore("units", 2).acquire_many(2).await.unwrap();
    let free = mutexes(&ours, 20);
    let units = ours.semaphore("units", 2);
    let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
    server.stop();
    // Among others, so that they go in company.
    let mut others = Box::pin(lock_all(&free));
    assert!((&mut others).now_or_never().is_none());
    for number in 0..10 {
        let (units, granted) = (units.clone(), granted.clone());
        let mut asking = Box::pin(async move {
            let both = units.acquire_many(2).await.unwrap();
            granted.send(number).unwrap();
            both.release().await.unwrap();
        });
        assert!((&mut asking).now_or_never().is_none());
        tokio::spawn(asking);
    }
    server.resume();
    for locked in others.await {
        locked.unwrap().release().await.unwrap();
    }
    all.release().await.unwrap();
    for number in 0..10 {
        let next = tokio::time::timeout(LONG, grants.recv()).await.unwrap();
        assert_eq!(next, Some(number));
    }
}

/// Who does not let its thread go keeps those waiting that were told with it, not those
/// of the other party.
#[testbed::test]
async fn a_task_that_keeps_its_thread_holds_up_no_other_party() {
    let server = REDIS.take();
    let session = session(&server).await;
    let (cycles, is_over) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut tasks = JoinSet::new();
    for mutex in mutexes(&session, 64) {
        let (cycles, is_over) = (cycles.clone(), is_over.clone());
        tasks.spawn(async move {
            while !is_over.load(Relaxed) {
                let guard = mutex.lock_within(LONG).await.unwrap();
                guard.release().await.unwrap();
                cycles.fetch_add(1, Relaxed);
            }
        });
    }
    let keeping = session.mutex("keeps its thread");
    let kept = tokio::spawn(async move {
        let mut least = usize::MAX;
        for _ in 0..10 {
            let guard = keeping.lock_within(LONG).await.unwrap();
            // The thread is kept until others have gone on, or stand still for long.
            let (before, begun) = (cycles.load(Relaxed), Instant::now());
            while cycles.load(Relaxed) == before && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(10));
            }
            least = least.min(cycles.load(Relaxed) - before);
            guard.release().await.unwrap();
        }
        least
    });
    let least = kept.await.unwrap();
    is_over.store(true, Relaxed);
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert!(least > 0, "all stood still");
    nothing_is_left(&session).await;
}
